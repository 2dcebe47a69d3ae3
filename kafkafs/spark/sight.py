"""What the driver saw of a store: carried by each piece of work, and compared with what the task sees that does it.

A worker may lack a mount, or have another store under the same path. A task's answer counts only if the task sees at
least what the driver saw, before the work and after it. A log that lives may have grown. It may lack a segment only if
it begins after it by now, or if it is compacted.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Self, TypeVar

from kafkafs.spark.errors import DataLossError, SeenLessError
from storage.errors import CorruptCheckpointError, CorruptMetadataError, RecordsCutOffError, StorageError
from storage.files import Files
from storage.log import ReadableLog, read_topic_id
from storage.log_dir import (
    COMPACTED_BY_BROKERS,
    MetaProperties,
    OffsetCheckpoint,
    parse_directory_name,
    read_meta_properties,
    read_offsets,
)
from storage.segment import Kind, segments_named

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import TypeAlias
    from uuid import UUID

    from storage.errors import RecordsGoneError
    from storage.files import Directory
    from storage.log import LogView
    from storage.log_dir import Partition
    from storage.split import Split
    from storage.store import Store

    Segments: TypeAlias = Iterable[tuple[int, int]]
    OnLoss: TypeAlias = Callable[[RecordsGoneError], None]

Piece = TypeVar("Piece")

_LOOKS: Final = 2  # a cleaner that renames files between two steps of a look is done by the next


class SeenLogDir(NamedTuple):
    """A log directory, and what its meta.properties said."""

    path: str
    properties: MetaProperties | None


class SeenLog(NamedTuple):
    """A partition's directory, and segments of its log: their base offsets, and the least size that each has."""

    directory: str
    topic_id: UUID | None
    is_compacted: bool
    segments: tuple[tuple[int, int], ...]

    def part(self, base_offsets: Collection[int]) -> Self:
        """Return the same with these segments only."""
        return self._replace(segments=tuple(each for each in self.segments if each[0] in base_offsets))


@dataclass(frozen=True, slots=True)
class Sight:
    """The log directories of a store, and logs in them, as the driver saw them."""

    log_dirs: tuple[SeenLogDir, ...] = ()
    logs: tuple[SeenLog, ...] = ()

    def __add__(self, other: Self) -> Sight:
        """Return the sight of two stores."""
        return Sight((*self.log_dirs, *other.log_dirs), (*self.logs, *other.logs))

    def check(self) -> dict[str, int]:
        """Return how many segments each directory lacks because its log has dropped them since, without the zeros.

        Raises `SeenLessError` if this process sees less in any other way.
        """
        files = Files()
        for each in self.log_dirs:
            _check_log_dir(files.directory(each.path), each.properties)
        dropped = {each.directory: _dropped(files.partition(each.directory), each) for each in self.logs}
        return {directory: count for directory, count in dropped.items() if count}

    @contextmanager
    def agreed(self) -> Iterator[dict[str, int]]:
        """Check before the block, after it, and if it fails because of files; provide what `check` returns at last."""
        dropped = self.check()
        try:
            yield dropped
        except (OSError, StorageError, DataLossError):
            self.check()
            raise
        dropped.update(self.check())


class Sighted(NamedTuple, Generic[Piece]):
    """A piece of work for a task, and what the driver saw of the logs that it is about."""

    piece: Piece
    sight: Sight = Sight()


class Sights:
    """Makes the sights of an open store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.of_log_dirs = Sight(tuple(SeenLogDir(str(each.path), each.properties) for each in store.log_dirs))
        self._compacted: dict[Partition, bool] = {}

    def of(self, segments: Mapping[Partition, Segments]) -> Sight:
        """Return the sight of the log directories, and of these segments of some partitions."""
        logs = tuple(self._seen(partition, each) for partition, each in segments.items())
        return Sight(self.of_log_dirs.log_dirs, logs)

    def of_splits(self, splits: Iterable[Split]) -> Sight:
        """Return the sight of the segments that splits read."""
        segments: dict[Partition, dict[int, int]] = {}
        for split in splits:
            sizes = segments.setdefault((split.place.topic, split.place.partition), {})
            size_bytes = split.end if split.log_bytes is None else split.log_bytes
            sizes[split.base_offset] = max(size_bytes, sizes.get(split.base_offset, 0))
        return self.of({partition: sizes.items() for partition, sizes in segments.items()})

    def of_logs(self, partitions: Iterable[Partition]) -> Sight:
        """Return the sight of all segments of some partitions, up to the end of each log."""
        segments: dict[Partition, list[tuple[int, int]]] = {}
        for partition in partitions:
            log = self._store.log(*partition)
            assert isinstance(log, ReadableLog)
            segments[partition] = log.on_view(_segments)
        return self.of(segments)

    def is_compacted(self, partition: Partition) -> bool:
        """Return True if a partition is or was compacted by what the store says, so that it may lack offsets."""
        if partition not in self._compacted:
            topic, number = partition
            topics = self._store.topics
            _, log_dir = topics.location(topic, number)
            was_compacted = partition in log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY)
            self._compacted[partition] = was_compacted or topic in COMPACTED_BY_BROKERS or topics.config(topic).compact
        return self._compacted[partition]

    def _seen(self, partition: Partition, segments: Segments) -> SeenLog:
        directory, _ = self._store.topics.location(*partition)
        return SeenLog(str(directory), _topic_id(directory), self.is_compacted(partition), tuple(segments))


def sight_of_log_dirs(paths: Iterable[str]) -> Sight:
    """Return the sight of log directories that are not open."""
    files = Files()
    return Sight(tuple(SeenLogDir(path, properties_of(files.directory(path))) for path in paths))


def seen_by_listing(directory: Directory, *, is_compacted: bool) -> SeenLog:
    """Return what the listing of a partition's directory shows, however damaged its log is."""
    try:
        found = directory.statuses()
    except OSError:
        found = {}
    sizes = tuple((each.base_offset, found[each.name(Kind.LOG)].size_bytes) for each in segments_named(found))
    return SeenLog(str(directory), _topic_id(directory), is_compacted, sizes)


def seen_less(lack: object) -> SeenLessError:
    """Return the error of a process that lacks something that the driver saw."""
    return SeenLessError(
        f"{socket.gethostname()} sees less of the store than the driver saw: {lack}; mount the store there under the "
        "same path, or run this again if its files were removed or cut off meanwhile"
    )


def explained(report: OnLoss) -> OnLoss:
    """Return how a task reports losses: only the log's own start explains one, all others are what it does not see."""
    return partial(_report_explained, report)


def _report_explained(report: OnLoss, loss: RecordsGoneError) -> None:
    if isinstance(loss, RecordsCutOffError):
        raise seen_less(loss)
    report(loss)


def _segments(view: LogView) -> list[tuple[int, int]]:
    closed = [(segment.base_offset, segment.size_bytes) for segment in view.segments[:-1]]
    return [*closed, *((segment.base_offset, view.end_position) for segment in view.segments[-1:])]


def _check_log_dir(directory: Directory, seen: MetaProperties | None) -> None:
    try:
        status = directory.own_status()
    except OSError as error:
        raise seen_less(f"{directory}: {error.strerror}") from None
    if status is None or not status.is_directory:
        raise seen_less(f"{directory} is not there")
    now = properties_of(directory)
    if seen is None or now is None:
        if seen is not None:
            raise seen_less(f"{directory} has no meta.properties")
        if now is not None:
            raise seen_less(f"{directory} has a meta.properties, which the driver did not find")
    elif any(was not in (None, now_is) for was, now_is in zip(_identity(seen), _identity(now), strict=True)):
        raise seen_less(f"{directory} is of another broker, as its meta.properties says")


def _identity(properties: MetaProperties) -> tuple[object, ...]:
    return properties.cluster_id, properties.node_id, properties.directory_id


def properties_of(directory: Directory) -> MetaProperties | None:
    """Return what a log directory's meta.properties says; None if it cannot be read."""
    try:
        return read_meta_properties(directory)
    except (CorruptMetadataError, OSError):
        return None


def _topic_id(directory: Directory) -> UUID | None:
    try:
        return read_topic_id(directory)
    except (CorruptMetadataError, OSError):
        return None


def _dropped(directory: Directory, seen: SeenLog) -> int:
    """Return how many segments the log has dropped; raises `SeenLessError` if it lacks any without having done so."""
    for _ in range(_LOOKS - 1):
        try:
            return _compared(directory, seen)
        except SeenLessError:
            directory.look_again()
    return _compared(directory, seen)


def _compared(directory: Directory, seen: SeenLog) -> int:
    try:
        names = directory.names()
    except (FileNotFoundError, NotADirectoryError):
        raise seen_less(f"{directory} is not there") from None
    except OSError as error:
        if not seen.segments:
            return 0  # the driver could not list it either, or saw nothing in it
        raise seen_less(f"{directory}: {error.strerror}") from None
    topic_id = _topic_id(directory)
    if None not in (seen.topic_id, topic_id) and seen.topic_id != topic_id:
        raise seen_less(f"{directory} is of another topic of that name")
    now = {each.base_offset: each for each in segments_named(names)}
    start = min(now, default=-1)
    dropped = 0
    for base_offset, size_bytes in seen.segments:
        found = now.get(base_offset)
        status = None if found is None else directory.status(found.name(Kind.LOG))
        if status is not None and status.size_bytes >= size_bytes:
            continue
        if (start > base_offset) or (start >= 0 and _is_compacted(directory, seen)):
            dropped += status is None
        elif status is None:
            raise seen_less(f"{directory.path_of(_log_name(base_offset))} is not there")
        else:
            raise seen_less(
                f"{directory.path_of(_log_name(base_offset))} has {status.size_bytes} bytes, and had {size_bytes}"
            )
    return dropped


def _log_name(base_offset: int) -> str:
    return f"{base_offset:020d}{Kind.LOG}"


def _is_compacted(directory: Directory, seen: SeenLog) -> bool:
    """Return True if the log is compacted by what the driver saw, or by the cleaner's checkpoint now."""
    name, log_dir = parse_directory_name(directory.name), directory.above
    if seen.is_compacted or name is None or log_dir is None:
        return seen.is_compacted
    try:
        return (name.topic, name.partition) in read_offsets(log_dir, OffsetCheckpoint.FIRST_DIRTY)
    except (CorruptCheckpointError, OSError):
        return False
