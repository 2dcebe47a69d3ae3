"""The account of a salvaged partition: what is in it, what is lost and why, what is not as it was.

Its JSON is kept in a file beside the partition's directory. The damage in it has the fields of `damage.jsonl`.
"""

from __future__ import annotations

import shlex
from bisect import bisect_left
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkafs.damage import range_row
from storage.files import is_in_object_store
from storage.offset_text import offsets_text
from storage.verify import Finding, FindingKind, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkafs.salvage.source import Source
    from storage.replicas import Damage, Mended, Replica, Unsummed
    from storage.verify import PartitionResult

_VERSION: Final = 1
_SAID_MAX: Final = 20


class Account(NamedTuple):
    """What became of a partition. `path` is that of the new directory, and `result` what verifying it found."""

    source: Source
    path: str
    replica: Replica
    mended: Mended
    result: PartitionResult
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return all of it."""
        topic, number = self.source.partition
        composition = self.mended.composition
        return {
            "version": _VERSION,
            "topic": topic,
            "partition": number,
            "source": str(self.source.directory),
            "salvaged": self.path,
            "startOffset": composition.start_offset,
            "endOffset": composition.end_offset,
            "batches": self.result.batches,
            "segments": self.result.segments,
            "bytes": self.result.size_bytes,
            "isCompacted": self.replica.lacks_offsets,
            "lost": [{"offset": lost.begin, "endOffset": lost.end} for lost in self.mended.lost],
            "damage": [range_row(found) for found in self._findings()],
            "unsummed": list(map(_unsummed_row, self.mended.unsummed)),
            "leaderEpochs": [
                {
                    "segment": odd.name,
                    "position": odd.begin,
                    "endPosition": odd.end,
                    "leaderEpoch": odd.epoch,
                    "writtenLeaderEpoch": odd.epoch_there,
                }
                for odd in self.mended.odd_epochs
            ],
            "notes": list(self.notes),
        }

    def _findings(self) -> Iterator[Finding]:
        """Yield the damage, with the offsets of the sound batches around it in the same file."""
        replica = self.replica
        ends: dict[str, list[tuple[int, int]]] = {}  # of the runs of a file: position and last offset
        begins: dict[str, list[tuple[int, int]]] = {}
        for run in replica.runs:
            ends.setdefault(run.name, []).append((run.end, run.next_offset - 1))
            begins.setdefault(run.name, []).append((run.begin, run.first_offset))
        tail: Iterable[Damage] = () if replica.tail is None else (replica.tail,)
        for damage in (*replica.damages, *tail):
            before, after = ends.get(damage.name, []), begins.get(damage.name, [])
            last = bisect_left(before, (damage.position + 1,)) - 1
            following = bisect_left(after, (damage.position,))
            yield Finding(
                severity=Severity.DAMAGE,
                kind=damage.kind,
                path=damage.name,
                position=damage.position,
                end_position=damage.end,
                offset=damage.offset,
                last_good_offset=before[last][1] if last >= 0 else None,
                next_good_offset=after[following][1] if following < len(after) else None,
                reason=damage.reason,
            )


def _unsummed_row(found: Unsummed) -> dict[str, Any]:
    batch = found.batch
    return {
        "segment": found.name,
        "position": batch.position,
        "endPosition": batch.end,
        "offset": batch.first_offset,
        "lastOffset": batch.last_offset,
        "records": batch.records,
        "declaredRecords": batch.declared,
        "hasChecksum": batch.has_checksum,
    }


def account_lines(account: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of an account as sentences for people."""
    yield from _bounded(map(_damage_line, account["damage"]), "damaged range")
    yield from _bounded(map(_unsummed_line, account["unsummed"]), "batch of unsummed records")
    yield from _bounded(map(_epoch_line, account["leaderEpochs"]), "odd leader epoch")
    yield from _bounded(map(_lost_line, account["lost"]), "lost range")
    yield from (f"note: {note}" for note in account["notes"])
    batches = f"{account['batches']} batches" if account["batches"] != 1 else "1 batch"
    offsets = offsets_text(account["startOffset"], account["endOffset"])
    yield (
        f"salvaged {account['topic']}/{account['partition']} into {account['salvaged']}: {offsets}, {batches}, "
        f"{account['bytes'] / 1e6:.1f} MB, verified"
    )
    yield _next_step(account["source"], PurePath(account["salvaged"]))


def _next_step(source: str, salvaged: PurePath) -> str:
    """Return the ways back into a broker; only the directory of a partition that is in use can be replaced."""
    revive = f"kafkafs revive {shlex.quote(str(salvaged.parent))} --into DEST"
    fresh = f"{revive} makes log directories with it for a fresh broker"
    if PurePath(source).name != salvaged.name or is_in_object_store(source):
        return f"next: {fresh}"
    return f"next: put it in the place of {source} while the broker is stopped, or {fresh}"


def _bounded(lines: Iterator[str], what: str) -> Iterator[str]:
    more = 0
    for number, line in enumerate(lines):
        if number < _SAID_MAX:
            yield line
        else:
            more += 1
    if more:
        yield f"{more} more {what}{'s' if more > 1 else ''}; the account has all"


def _damage_line(row: Mapping[str, Any]) -> str:
    if row["kind"] == FindingKind.OFFSET_GAP:
        return f"missing: {row['segment']}: {row['reason']}"
    end = "its end" if row["endPosition"] is None else row["endPosition"]
    return f"damaged: {row['segment']}, bytes {row['position']} to {end}: {row['reason']}"


def _unsummed_line(row: Mapping[str, Any]) -> str:
    of = "" if row["declaredRecords"] in (None, row["records"]) else f" of {row['declaredRecords']}"
    records = f"{row['records']}{of} record{'s' if row['records'] != 1 else ''}"
    vouched = "their checksum is right" if row["hasChecksum"] else "nothing vouches for them"
    return (
        f"even so: {offsets_text(row['offset'], row['lastOffset'] + 1)}, {records} of the broken batch at "
        f"{row['position']} of {row['segment']}; {vouched}"
    )


def _epoch_line(row: Mapping[str, Any]) -> str:
    return (
        f"changed: the leader epoch {row['leaderEpoch']} at {row['position']} of {row['segment']}, which contradicts "
        f"those around it, is {row['writtenLeaderEpoch']} in the copy"
    )


def _lost_line(row: Mapping[str, Any]) -> str:
    if row["endOffset"] is None:
        return f"lost: offsets from {row['offset']} on, if there were any"
    return f"lost: {offsets_text(row['offset'], row['endOffset'])}"
