"""What a run would take of a partition, decided without changing anything: up to where, which files, copied or shared.

A partition is looked at until two looks in a row agree about its files. What was planned may still change before it is
copied; then the partition is planned again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.backup.errors import ChangedError, DamagedRunError, UnreadableSourceError, reading
from kafkafs.backup.manifest_lines import RunFile, SourceFile
from storage.cluster import QUORUM_STATE_NAME, is_metadata_snapshot
from storage.errors import StorageError, UnknownPartitionError
from storage.log import EPOCHS_NAME, PARTITION_METADATA_NAME, LogPrefix
from storage.log_dir import CLUSTER_METADATA, OffsetCheckpoint
from storage.segment import SEGMENT_KINDS, FileName, FileSuffix, Kind, live_offsets, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkafs.backup.manifest import Manifest
    from kafkafs.backup.manifest_lines import RunPartition
    from storage.files import Directory, FileStatus
    from storage.log import FollowedLog, LogView, PrefixSegment
    from storage.log_dir import LogDir, Partition
    from storage.store import Store

SMALL_NAMES: Final = (EPOCHS_NAME, PARTITION_METADATA_NAME, QUORUM_STATE_NAME)
"""The small files that are read at the end, whole; recovery cuts the epochs to the log."""

_LOOKS_MAX: Final = 20
_SETTLED_NS: Final = 1_000_000_000
"""How long ago a file must have changed for its time of change to tell a later one apart."""


class PlannedFile(NamedTuple):
    """A file to take from the partition's directory. `shared` is that of an earlier run, which is linked instead."""

    name: str
    source_name: str
    size_bytes: int
    status: FileStatus
    source: SourceFile | None
    shared: RunFile | None = None


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """The files of a segment. `derived` are files that an earlier run made for it, to link if all others are linked."""

    base_offset: int
    is_last: bool
    files: tuple[PlannedFile, ...]
    derived: tuple[RunFile, ...] = ()

    @property
    def is_shared(self) -> bool:
        """True if all of it is linked."""
        return all(file.shared is not None for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """The part of a partition that a run takes. `log` and `view` are what it was planned by.

    `earlier` is the run whose files it shares, and `before` the partition in it.
    """

    topic: str
    partition: int
    directory: Directory
    log_dir: LogDir
    log: FollowedLog
    view: LogView
    prefix: LogPrefix
    high_watermark: int | None
    first_dirty_offset: int | None
    segments: tuple[PlannedSegment, ...]
    others: tuple[PlannedFile, ...]
    earlier: Manifest | None
    before: RunPartition | None

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.topic}-{self.partition}"

    @property
    def above_high_watermark(self) -> int:
        """The number of offsets of the log that are left out because they are above the high watermark."""
        return 0 if self.high_watermark is None else max(self.view.end_offset - self.prefix.end_offset, 0)

    @property
    def copied_bytes(self) -> int:
        """The number of bytes to copy."""
        return sum(file.size_bytes for file in self.files() if file.shared is None)

    @property
    def linked_bytes(self) -> int:
        """The number of bytes that are shared with an earlier run."""
        derived = sum(file.size_bytes for segment in self.segments if segment.is_shared for file in segment.derived)
        return derived + sum(file.size_bytes for file in self.files() if file.shared is not None)

    def files(self) -> Iterator[PlannedFile]:
        """Yield the files of the segments and the others."""
        for segment in self.segments:
            yield from segment.files
        yield from self.others


class Bound(NamedTuple):
    """The offset up to which a partition is taken, and the high watermark that says so; None at the log's end."""

    offset: int
    high_watermark: int | None


def plan_partition(
    store: Store, partition: Partition, earlier: Sequence[Manifest], now_ms: int, *, to_end: bool
) -> PartitionPlan:
    """Plan one partition.

    Raises `UnknownPartitionError` if it is gone, `ChangedError` if it does not stand still long enough to look, and
    `UnreadableSourceError` if it cannot be read.
    """
    directory, _ = store.topics.location(*partition)
    try:
        with reading(directory):
            return _planned(store, partition, earlier, now_ms, to_end=to_end)
    except UnknownPartitionError:
        raise
    except StorageError as error:
        raise UnreadableSourceError(str(error)) from None


def _planned(
    store: Store, partition: Partition, earlier: Sequence[Manifest], now_ms: int, *, to_end: bool
) -> PartitionPlan:
    directory, log_dir = store.topics.location(*partition)
    log = store.follow_partition(*partition)
    dirty = log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY).get(partition)
    statuses = _statuses(directory)
    for _ in range(_LOOKS_MAX):
        view = log.view
        bound = bound_of(store, partition, log_dir, view, to_end=to_end)
        try:
            prefix = LogPrefix.of(view, bound.offset)
        except FileNotFoundError:
            prefix = None
        before, statuses = statuses, _statuses(directory)
        if prefix is not None and _agree(prefix, before, statuses):
            break
    else:
        raise ChangedError("its segments change faster than they can be looked at")
    manifest, known = earlier_copy(earlier, partition)
    files = {} if known is None else {file.name: file for file in known.files}
    planning = _Planning(statuses, files, now_ms * 1_000_000)
    snapshots = [offset for offset in live_offsets(statuses, Kind.SNAPSHOT) if offset <= prefix.end_offset]
    return PartitionPlan(
        topic=partition[0],
        partition=partition[1],
        directory=directory,
        log_dir=log_dir,
        log=log,
        view=view,
        prefix=prefix,
        high_watermark=bound.high_watermark,
        first_dirty_offset=None if dirty is None else min(dirty, prefix.end_offset),
        segments=tuple(planning.segment(each, snapshots, is_damaged=bool(prefix.damage)) for each in prefix.segments),
        others=tuple(planning.others(prefix, snapshots)),
        earlier=manifest,
        before=known,
    )


def bound_of(store: Store, partition: Partition, log_dir: LogDir, view: LogView, *, to_end: bool) -> Bound:
    """Return up to where the partition is replicated, as of the last checkpoint of its broker.

    The metadata log has no such checkpoint, a store that kafkafs made has no followers, and a checkpoint that is
    damaged or missing says nothing: then the bound is the log's end.
    """
    topic = partition[0]
    if to_end or topic == CLUSTER_METADATA or store.is_made_here or store.topics.is_made_here(topic):
        return Bound(view.end_offset, None)
    if not is_watermark_known(log_dir):
        return Bound(view.end_offset, None)
    offset = store.high_watermark(*partition, view)
    return Bound(offset, offset)


def is_watermark_known(log_dir: LogDir) -> bool:
    """True if the log directory has the checkpoint of high watermarks, and it can be read."""
    checkpoint = OffsetCheckpoint.HIGH_WATERMARK
    return log_dir.flaw(checkpoint) is None and log_dir.directory.status(checkpoint.value) is not None


class _Planning:
    """Decides about the files of one partition, of which an earlier run has some."""

    def __init__(self, statuses: Mapping[str, FileStatus], files: Mapping[str, RunFile], now_ns: int) -> None:
        self._statuses = statuses
        self._files = files
        self._now_ns = now_ns

    def segment(self, part: PrefixSegment, snapshots: Sequence[int], *, is_damaged: bool) -> PlannedSegment:
        """Plan a segment. The last one is taken without its indexes, which end with the log; recovery makes them."""
        kinds = (Kind.LOG,) if part.is_last and not is_damaged else SEGMENT_KINDS
        found = []
        for kind in kinds:
            source_name = part.segment.name(kind)
            status = self._statuses.get(source_name)
            if status is not None:
                size_bytes = part.size_bytes if kind is Kind.LOG else status.size_bytes
                name = str(FileName(part.base_offset, kind, FileSuffix.LIVE))
                found.append(self._file(name, source_name, size_bytes, status))
        if part.base_offset in snapshots:
            name = str(FileName(part.base_offset, Kind.SNAPSHOT))
            found.append(self._file(name, name, self._statuses[name].size_bytes, self._statuses[name]))
        planned = {file.name for file in found} | {str(FileName(offset, Kind.SNAPSHOT)) for offset in snapshots}
        derived = tuple(
            file for file in self._files.values() if file.name not in planned and _is_of_segment(file.name, part)
        )
        return PlannedSegment(part.base_offset, part.is_last, tuple(found), derived)

    def others(self, prefix: LogPrefix, snapshots: Sequence[int]) -> Iterator[PlannedFile]:
        """Plan the snapshots that belong to no segment's base, and those of the metadata log."""
        bases = {each.base_offset for each in prefix.segments}
        names = [str(FileName(offset, Kind.SNAPSHOT)) for offset in snapshots if offset not in bases]
        names += sorted(filter(is_metadata_snapshot, self._statuses))
        for name in names:
            yield self._file(name, name, self._statuses[name].size_bytes, self._statuses[name])

    def _file(self, name: str, source_name: str, size_bytes: int, status: FileStatus) -> PlannedFile:
        source = SourceFile(status.identity[1], status.size_bytes, status.changed_ns)
        if status.changed_ns > self._now_ns - _SETTLED_NS:
            return PlannedFile(name, source_name, size_bytes, status, None)
        known = self._files.get(name)
        is_shared = known is not None and known.source == source and known.size_bytes == size_bytes
        return PlannedFile(name, source_name, size_bytes, status, source, known if is_shared else None)


def _statuses(directory: Directory) -> dict[str, FileStatus]:
    try:
        return {name: status for name, status in directory.statuses().items() if status.is_file}
    except FileNotFoundError:
        raise ChangedError("its directory is not there any more") from None


def _agree(prefix: LogPrefix, before: Mapping[str, FileStatus], after: Mapping[str, FileStatus]) -> bool:
    """True if the files of the segments are the same in two listings around the view that the prefix was made of."""
    for part in prefix.segments:
        for kind in SEGMENT_KINDS:
            name = part.segment.name(kind)
            if _identity(before.get(name)) != _identity(after.get(name)):
                return False
        if part.segment.name(Kind.LOG) not in after:
            return False
    return True


def _identity(status: FileStatus | None) -> tuple[int, int] | None:
    return None if status is None else status.identity


def _is_of_segment(text: str, part: PrefixSegment) -> bool:
    """True for the segment's files; to the last one belongs the snapshot at the log's end too."""
    name = parse_name(text)
    if name is None:
        return False
    is_at_end = part.is_last and name.kind is Kind.SNAPSHOT and name.offset > part.base_offset
    return name.offset == part.base_offset or is_at_end


def earlier_copy(manifests: Sequence[Manifest], partition: Partition) -> tuple[Manifest | None, RunPartition | None]:
    """Return the first of these runs that has the partition, and what it has of it.

    A run that was sound when it was looked at, and is changed or removed by now, has nothing.
    """
    for manifest in manifests:
        with suppress(DamagedRunError, OSError):
            found = manifest.partition(partition)
            if found is not None:
                return manifest, found
    return None, None
