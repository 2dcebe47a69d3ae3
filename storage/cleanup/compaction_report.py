"""The report of a cleaner's run: what it read, kept and left out, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.record.kernel.retained import RetainedRecords


class Loss(Enum):
    """Why a record is left out."""

    NONE = "none"  # it is not
    SUPERSEDED = "superseded"  # a later record has its key
    KEYLESS = "keyless"
    EXPIRED = "expired"  # a tombstone past its delete horizon
    ABORTED = "aborted"
    MARKER = "marker"  # the marker of a transaction without batches


@dataclass(slots=True)
class Tally:
    """Counts of batches and records, while a run goes on."""

    batches_read: int = 0
    batches_kept: int = 0
    batches_unchanged: int = 0
    read: int = 0
    kept: int = 0
    superseded: int = 0
    keyless: int = 0
    expired: int = 0
    aborted: int = 0
    markers: int = 0

    def add(self, found: RetainedRecords) -> None:
        """Count the records of a batch that may be kept in part."""
        self.read += found.read
        self.kept += found.kept
        self.superseded += found.superseded
        self.keyless += found.keyless
        self.expired += found.expired

    def lose(self, fates: Sequence[Loss]) -> None:
        """Count records by their loss."""
        self.read += len(fates)
        self.kept += fates.count(Loss.NONE)
        self.superseded += fates.count(Loss.SUPERSEDED)
        self.keyless += fates.count(Loss.KEYLESS)
        self.expired += fates.count(Loss.EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """The report of a finished run.

    `first_dirty_offset` is where the next one begins, for the cleaner's checkpoint. `before_bytes` and `after_bytes`
    are of the segments that were replaced, and of those in their place. `read_bytes` and `written_bytes` are all that
    was read for it, the first pass included, and all that was written. `map_load` says how full the map became of the
    room that it has, from 0 to 1; with `is_map_full` it was too small for the dirty part of the log.
    """

    log: str
    start_offset: int
    first_dirty_offset: int
    segments_before: int
    segments_after: int
    before_bytes: int
    after_bytes: int
    read_bytes: int
    written_bytes: int
    map_keys: int
    map_load: float
    is_map_full: bool
    duration_s: float
    records: Tally = field(default_factory=Tally)

    @property
    def freed_bytes(self) -> int:
        """Return by how much the log shrank; batches with new horizons are a little larger than before."""
        return self.before_bytes - self.after_bytes

    @property
    def sentence(self) -> str:
        """Say in a sentence how much was left of how much."""
        records = self.records
        share = self.after_bytes / self.before_bytes if self.before_bytes else 1.0
        return (
            f"{self.before_bytes} bytes become {self.after_bytes} ({share:.1%}), {records.read} records become "
            f"{records.kept}; the log is clean before offset {self.first_dirty_offset}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON objects."""
        return asdict(self)
