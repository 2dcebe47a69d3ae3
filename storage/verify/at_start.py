"""What a broker that starts does about each finding, by Kafka's rules.

Without a clean-shutdown marker a broker reads each log from the segment on that has its recovery point: framing,
checksums and offsets. There it truncates at the first damage, and removes the segments after it. Other segments, and
all logs where the marker is, it does not read: it believes their indexes, and damage in them stays for consumers to
meet. A file that it cannot make sense of takes the whole log directory offline, or keeps it from starting.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.segment.names import Kind, live_offsets, parse_name
from storage.verify.finding import Finding, FindingKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from storage.verify.context import PartitionExpectation


class StartAction(StrEnum):
    """What a broker does, in a word."""

    NOTHING = "nothing"  # it does not notice, or goes on
    TRUNCATE = "truncate"  # it cuts the log
    REBUILD = "rebuild"  # it makes the file from the log
    REMOVE = "remove"  # it finishes or removes what is left over
    STRAY = "stray"  # it renames the partition's directory to -stray
    OFFLINE = "offline"  # it takes the log directory offline
    REFUSE = "refuse"  # it does not start


_TAILS: Final = (FindingKind.TORN_TAIL, FindingKind.ZERO_TAIL)
NOT_SERVED: Final = "a broker opens it under a name that the cluster does not know, and serves it to no client"
_PUTS_ASIDE: Final = "then it renames the partitions of all topics made in the records that are lost to -stray"


class AtStart(NamedTuple):
    """What a broker does about a finding, and the sentence that says so."""

    action: StartAction
    text: str


class _Segment(NamedTuple):
    """A finding in a segment that a broker reads at its start, or one that it does not."""

    finding: Finding
    is_read: bool
    is_last: bool
    is_cluster_metadata: bool = False


def _unread(rest: str) -> AtStart:
    return AtStart(StartAction.NOTHING, f"a broker does not read this segment when it starts, and {rest}")


def _same(action: StartAction, text: str) -> Callable[[_Segment], AtStart]:
    return lambda _: AtStart(action, text)


def _truncated(at: _Segment) -> AtStart:
    found = at.finding
    if not at.is_read:
        return _unread(
            "appends after these bytes" if at.is_last and found.next_good_offset is None else "serves it as it is"
        )
    later = "" if at.is_last else ", removes the segments after it,"
    lost = f"loses {_lost(at)}"
    aside = ""
    if at.is_cluster_metadata and (found.kind not in _TAILS or not at.is_last or found.next_good_offset is not None):
        aside = f"; {_PUTS_ASIDE}"
    text = f"a broker truncates this log at position {found.position}{later} and {lost}{aside}"
    return AtStart(StartAction.TRUNCATE, text)


def _lost(at: _Segment) -> str:
    found = at.finding
    if not at.is_last or found.next_good_offset is not None:
        return f"the offsets from {found.offset} up to the log's end"
    return "nothing" if found.kind is FindingKind.ZERO_TAIL else f"the offsets from {found.offset} on, if any"


def _emptied(at: _Segment) -> AtStart:
    if not at.is_read:
        return _unread("serves it as it is")
    later = "" if at.is_last else ", and removes those after it"
    aside = f"; {_PUTS_ASIDE}" if at.is_cluster_metadata else ""
    return AtStart(
        StartAction.TRUNCATE, f"a broker empties the segment where an index entry is due there{later}{aside}"
    )


def _index(at: _Segment) -> AtStart:
    if at.is_read:
        return AtStart(StartAction.REBUILD, "a broker builds the indexes of this segment again from its log")
    return _unread("believes the index")


def _missing_index(at: _Segment) -> AtStart:
    name = parse_name(at.finding.path)
    if at.is_read or name is None or name.kind is not Kind.TIME_INDEX:
        text = "a broker reads this segment, builds its indexes again, and truncates its log at the first damage"
        return AtStart(StartAction.REBUILD, text)
    return AtStart(StartAction.REBUILD, "a broker makes an empty time index, so that searches read from the beginning")


def _transaction_index(at: _Segment) -> AtStart:
    if at.is_read:
        return _index(at)
    text = "a broker builds the segment's indexes again if an entry ends below its base offset, and believes any other"
    return AtStart(StartAction.REBUILD, text)


def _missing_snapshot(at: _Segment) -> AtStart:
    if at.is_read:
        return AtStart(StartAction.REBUILD, "a broker reads the log from an earlier snapshot on, or from its beginning")
    text = "a broker takes the log for one without producers if there is no earlier snapshot, as it was closed properly"
    return AtStart(StartAction.NOTHING, text)


_IN_A_LOG: Final = frozenset(
    {
        FindingKind.FRAMING,
        FindingKind.CHECKSUM,
        FindingKind.RECORDS,
        FindingKind.OFFSETS,
        FindingKind.TORN_TAIL,
        FindingKind.ZERO_TAIL,
    }
)
_BELIEVES: Final = "a broker goes by the checkpoint, and does not compare it with the batches"
_NO_BROKER_STARTS: Final = AtStart(StartAction.REFUSE, "no broker starts with it")
_NOT_STARTING: Final = _same(*_NO_BROKER_STARTS)
_OFFLINE: Final = "a broker takes the log directory offline, and ends if it is its only one"

AT_START: Final[Mapping[FindingKind, Callable[[_Segment], AtStart]]] = MappingProxyType(
    {
        FindingKind.FRAMING: _truncated,
        FindingKind.CHECKSUM: _truncated,
        FindingKind.RECORDS: _same(StartAction.NOTHING, "a broker does not decode records when it starts"),
        FindingKind.OFFSETS: _emptied,
        FindingKind.OFFSET_GAP: _same(StartAction.NOTHING, "a broker goes on after the gap"),
        FindingKind.LEADER_EPOCH: _same(StartAction.NOTHING, _BELIEVES),
        FindingKind.TORN_TAIL: _truncated,
        FindingKind.ZERO_TAIL: _truncated,
        FindingKind.LOST_TAIL: _same(StartAction.NOTHING, "a broker goes on at the log's end, and notices no loss"),
        FindingKind.MISSING_INDEX: _missing_index,
        FindingKind.ORPHANED_INDEX: _same(StartAction.REMOVE, "a broker removes it"),
        FindingKind.INDEX_SIZE: _index,
        FindingKind.UNTRIMMED_INDEX: _index,
        FindingKind.INDEX_ENTRY: _index,
        FindingKind.TIME_INDEX_ENTRY: _index,
        FindingKind.TRANSACTION_INDEX_ENTRY: _transaction_index,
        FindingKind.INTERRUPTED_REPLACEMENT: _same(
            StartAction.REMOVE, "a broker finishes the replacement, or removes what was not complete"
        ),
        FindingKind.LEFT_OVER: _same(StartAction.REMOVE, "a broker removes it, or does not look at it"),
        FindingKind.MISSING_SNAPSHOT: _missing_snapshot,
        FindingKind.SNAPSHOT: _same(
            StartAction.REBUILD, "a broker removes a snapshot that it cannot read, and reads the log from one before it"
        ),
        FindingKind.EPOCH_CHECKPOINT: _same(StartAction.OFFLINE, _OFFLINE),
        FindingKind.PARTITION_METADATA: _same(
            StartAction.OFFLINE, f"{_OFFLINE}; with a wrong id it renames the partition to -stray"
        ),
        FindingKind.METADATA_SNAPSHOT: _same(
            StartAction.REFUSE, "no broker starts with it, unless a later snapshot of the metadata follows"
        ),
        FindingKind.QUORUM_STATE: _NOT_STARTING,
        FindingKind.META_PROPERTIES: _NOT_STARTING,
        FindingKind.CHECKPOINT: _same(StartAction.OFFLINE, _OFFLINE),
        FindingKind.FOREIGN_DIRECTORY: _NOT_STARTING,
        FindingKind.BARE_LOG_DIR: _same(
            StartAction.NOTHING,
            "a broker takes the log directory for a new one, and makes partitions that are missing again, empty",
        ),
        FindingKind.DUPLICATE_PARTITION: _NOT_STARTING,
        FindingKind.DUPLICATE_COPY: _NOT_STARTING,
        FindingKind.STRAY: _same(StartAction.STRAY, "a broker puts it aside"),
        FindingKind.SETTINGS: _same(StartAction.NOTHING, "a broker does not look at it"),
        FindingKind.COMMITS: _same(StartAction.NOTHING, "a broker does not look at it"),
        FindingKind.SYMBOLIC_LINK: _same(StartAction.NOTHING, "a broker follows the link"),
        FindingKind.UNREADABLE: _same(StartAction.OFFLINE, f"if it cannot read it either, {_OFFLINE}"),
    }
)
"""The table by kind of finding."""


def in_partition(expected: PartitionExpectation, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a partition's directory with what a broker does about each."""
    if not findings:
        return []
    bases = _bases(expected)
    point = expected.reached.get(OffsetCheckpoint.RECOVERY_POINT.value, 0)
    first_read = max((base for base in bases if base <= point), default=0)
    told = []
    for finding in findings:
        name = parse_name(finding.path)
        base = first_read if name is None else name.offset
        is_last = not bases or base >= bases[-1]
        is_read = not expected.is_clean and base >= first_read
        told.append(_told(finding, _looked_up(_Segment(finding, is_read, is_last, expected.is_cluster_metadata))))
    return told


def of_store(finding: Finding) -> Finding:
    """Return a finding outside of partitions, or about several, with what a broker does about it."""
    if finding.start_action is not None:
        return finding
    return _told(finding, _looked_up(_Segment(finding, is_read=True, is_last=True)))


def stray_without_id(finding: Finding) -> Finding:
    """Return the finding of a partition that says no topic id, with what a broker of a KRaft cluster does about it."""
    return _told(finding, AtStart(StartAction.STRAY, "a broker renames its directory to -stray, and serves it no more"))


def not_starting(finding: Finding) -> Finding:
    """Return the finding of a metadata log that says another topic's id, with what a broker does about it."""
    return _told(finding, _NO_BROKER_STARTS)


def registered_again(finding: Finding) -> Finding:
    """Return the finding of a log directory that its broker has not registered, with what the broker does about it."""
    text = "a broker registers the log directory as a new one, and tells its controller which partitions are in it"
    return _told(finding, AtStart(StartAction.NOTHING, text))


def not_served(finding: Finding) -> Finding:
    """Return the finding of a partition that has another topic's id, with what a broker does about it."""
    return _told(finding, AtStart(StartAction.NOTHING, NOT_SERVED))


def passed_over(finding: Finding) -> Finding:
    """Return the finding of lines in a checkpoint that others contradict, with what a broker does about it."""
    return _told(finding, AtStart(StartAction.NOTHING, "a broker passes over the lines that another one contradicts"))


def _looked_up(at: _Segment) -> AtStart:
    """Look up the table. Damaged batches that are in no segment are those of a snapshot of the cluster's metadata."""
    kind = at.finding.kind
    if kind in _IN_A_LOG and parse_name(at.finding.path.rpartition("/")[2]) is None:
        kind = FindingKind.METADATA_SNAPSHOT
    return AT_START[kind](at)


def _told(finding: Finding, at_start: AtStart) -> Finding:
    if finding.start_action is not None:
        return finding
    return replace(finding, start_action=at_start.action.value, at_start=at_start.text)


def _bases(expected: PartitionExpectation) -> list[int]:
    try:
        return live_offsets(expected.directory.names(), Kind.LOG)
    except OSError:
        return []
