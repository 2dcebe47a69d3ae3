"""One partition's directory looked through, every byte of it, without changing one.

A broker may be writing meanwhile. Each file is looked at up to where it ended when its turn came; and if the directory
was not the same at the end as at the beginning, damage counts only if a second look finds the very same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.verify.finding import Finding, Severity, unreadable
from storage.verify.partition_look import PartitionLook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from storage.files import Files, FileStatus

_LOOKS_MAX: Final = 3


class Standing(NamedTuple):
    """What a log directory says of a partition, for an expectation, of which each name is."""

    is_clean: bool
    reached: Mapping[str, int]
    outdated: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpectation:
    """What is known of a partition before anybody looks.

    The log begins at `start_offset` or later: what lies before is there, and nobody relies on it. `reached` are offsets
    that the log has reached by the word of some file, which is the key; those that are `outdated` may have been written
    before a leader made this replica truncate its log. A partition that `is_compacted` may lack
    offsets, and so may any that shows signs of it. One that `is_cluster_metadata` is the log of a KRaft cluster about
    itself, which has snapshots of its own kind beside it.

    A broker that runs changes its log directory meanwhile: `again` asks what that says now.
    """

    directory: str
    is_clean: bool = False
    has_topic_id: bool = False
    is_compacted: bool = False
    start_offset: int = 0
    reached: Mapping[str, int] = field(default_factory=dict)
    outdated: frozenset[str] = frozenset()
    is_cluster_metadata: bool = False
    again: Callable[[Files], Standing] | None = None

    def is_clean_still(self, files: Files) -> bool:
        """Whether no broker has opened the log directory since it was found closed properly."""
        return self.is_clean and (self.again is None or self.again(files).is_clean)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """What was found in a partition, with paths relative to its directory, and how much was looked at."""

    findings: Sequence[Finding] = ()
    topic_id: UUID | None = None
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, look: PartitionLook) -> Self:
        """That of a look which is taken now."""
        look.run()
        return cls(
            findings=look.findings,
            topic_id=look.topic_id,
            segments=look.segments,
            batches=look.batches,
            size_bytes=look.size_bytes,
        )

    @property
    def has_damage(self) -> bool:
        """Whether anything is damaged."""
        return any(finding.severity is Severity.DAMAGE for finding in self.findings)


def check_partition(
    files: Files, expected: PartitionExpectation, *, advance: Callable[[int], None]
) -> PartitionVerdict:
    """Look through a partition; `advance` is told how many bytes of logs were looked at since the last time.

    A directory that is gone by the time is not looked at, and nothing is wrong with it.
    """
    files.add_root(Path(expected.directory).parent)
    verdict: PartitionVerdict | None = None
    for _ in range(_LOOKS_MAX):
        try:
            before = listed(files, expected.directory)
            found = PartitionVerdict.of(PartitionLook(files, expected, before, advance=advance))
            is_still = listed(files, expected.directory) == before
        except FileNotFoundError:
            if files.status(expected.directory) is None:
                return PartitionVerdict()
            continue  # a file went while it was looked at
        except OSError as error:
            return PartitionVerdict(findings=[unreadable("", error)])
        if found.has_damage and expected.is_clean and not expected.is_clean_still(files):
            expected, verdict = replace(expected, is_clean=False), None
            continue  # what is open looks otherwise than what is closed
        again = None if verdict is None else {finding.identity for finding in verdict.findings}
        if again is not None:
            confirmed = [finding for finding in found.findings if finding.identity in again]
            found = _with(found, confirmed)
        if is_still or again is not None or not found.has_damage:
            return found
        verdict = found
    # It was never there long enough to be looked at twice.
    return PartitionVerdict() if verdict is None else _with(verdict, ())


def _with(verdict: PartitionVerdict, findings: Sequence[Finding]) -> PartitionVerdict:
    return PartitionVerdict(
        findings=findings,
        topic_id=verdict.topic_id,
        segments=verdict.segments,
        batches=verdict.batches,
        size_bytes=verdict.size_bytes,
    )


def listed(files: Files, directory: str) -> dict[str, FileStatus]:
    """The files of a directory; raises an `OSError` if it cannot be listed."""
    listing = {}
    for name in files.names(directory):
        status = files.status(Path(directory, name))
        if status is not None and not status.is_directory:
            listing[name] = status
    return listing
