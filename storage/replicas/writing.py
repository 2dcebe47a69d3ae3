"""A composed log written into an empty directory: copied, recovered and so verified, and closed properly.

Indexes are built from the batches and never copied. Every batch of the copy is read again, with its checksum, before
the directory counts as finished.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from storage.errors import BuildError, CorruptSnapshotError
from storage.files import copy_ranges
from storage.log.epochs import LeaderEpochs
from storage.log.partition_metadata import write_topic_id
from storage.log.producers.snapshot import SnapshotFiles
from storage.log.recover.recovery import recover_log
from storage.segment.names import FileName, Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Directory, FileRange
    from storage.replicas.composition import Composition

_NEVER_MS: Final = 2**62
"""No producer is forgotten for its age: its disks may have been dead for long."""


def write_log(
    composition: Composition,
    directory: Directory,
    config: TopicConfig,
    topic_id: UUID | None,
    clock: Clock,
    *,
    links: bool = False,
    tell: Callable[[int], object] = lambda _: None,
) -> None:
    """Write the log, durably, and the id of its topic if that is known.

    With `links` whole `.log` files of closed segments become hard links to those of the source, where the file system
    allows it. `tell` is given the number of bytes after each piece that was copied. Raises `BuildError` if the copy
    does not have the batches that the replicas had when they were read.
    """
    _write_segments(composition, directory, links=links, tell=tell)
    if composition.segments:
        _write_producers(composition.chosen.directory, directory, composition.segments[0].base_offset)
    LeaderEpochs.make(directory, composition.chosen.epochs)
    _finish(
        directory, config, topic_id, clock, start_offset=composition.start_offset, end_offset=composition.end_offset
    )


def write_empty_log(directory: Directory, config: TopicConfig, topic_id: UUID, clock: Clock) -> None:
    """Write a log that has no records yet."""
    copy_ranges((), directory, str(FileName(0, Kind.LOG)))
    LeaderEpochs.make(directory, ())
    _finish(directory, config, topic_id, clock, start_offset=0, end_offset=0)


def _finish(
    directory: Directory,
    config: TopicConfig,
    topic_id: UUID | None,
    clock: Clock,
    *,
    start_offset: int,
    end_offset: int,
) -> None:
    """Recover the log, which reads all of it, and write its topic's id."""
    report = recover_log(
        clock,
        directory,
        config,
        is_clean=False,
        start_offset=start_offset,
        allows_offset_gaps=True,
        producer_expiration_ms=_NEVER_MS,
    )
    if report.lost_bytes or report.end_offset != end_offset:
        raise BuildError(
            f"the copy ends at offset {report.end_offset} instead of {end_offset}: its source changed, or a disk "
            "fails; run this again",
            path=directory,
        )
    if topic_id is not None:
        write_topic_id(directory, topic_id)
    directory.sync()


def _write_segments(
    composition: Composition, directory: Directory, *, links: bool, tell: Callable[[int], object]
) -> None:
    """Write the logs of the segments, or of an empty one."""
    segments = composition.segments
    for index, segment in enumerate(segments):
        name = str(FileName(segment.base_offset, Kind.LOG))
        is_closed = index + 1 < len(segments)
        if links and is_closed and len(segment.ranges) == 1 and _is_linked(segment.ranges[0], directory, name):
            tell(segment.ranges[0].size_bytes)
        else:
            copy_ranges(segment.ranges, directory, name, modified_ms=segment.modified_ms, tell=tell)
    if not segments:
        copy_ranges((), directory, str(FileName(composition.end_offset, Kind.LOG)))


def _is_linked(source: FileRange, directory: Directory, name: str) -> bool:
    """Link a whole file, and return True; False if it cannot be linked, or opened after that."""
    status, own = source.directory.status(source.name), directory.own_status()
    if status is None or own is None or source.begin or source.end != status.size_bytes or status.uid != own.uid:
        return False
    try:
        source.directory.link(source.name, directory, name)
    except FileExistsError:
        raise
    except OSError:  # another file system, or one without hard links
        return False
    return True


def _write_producers(source: Directory, directory: Directory, base_offset: int) -> None:
    """Copy the snapshot of the producers before the first segment: no batch of theirs may be left."""
    with suppress(CorruptSnapshotError, OSError):
        states = SnapshotFiles(source, read_only=True, offsets=[base_offset]).read(base_offset)
        SnapshotFiles(directory, offsets=()).write(base_offset, states, sync=True)
