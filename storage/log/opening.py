"""Opening a log whose directory is known to be sound: new, closed properly, or just recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.log.epochs import LeaderEpochs
from storage.log.producers.producers import ProducerStates
from storage.log.producers.replay import replay
from storage.log.producers.snapshot import SnapshotFiles
from storage.log.recover.report import FoundLog
from storage.segment.names import Kind, check_few_segments, live_offsets
from storage.segment.rolling import draw_jitter_ms
from storage.segment.segment import Segment
from storage.segment.writable_segment import WritableSegment

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Directory


class LogParts(NamedTuple):
    """The parts that opening builds from a sound directory, and a `Log` is made of.

    `closed` are all segments but the active one, ascending. Producers and epochs are those at the log's end.
    """

    closed: Sequence[Segment]
    active: WritableSegment
    start_offset: int
    end_offset: int
    recovery_point: int
    producers: ProducerStates
    epochs: LeaderEpochs


def open_sound_log(
    clock: Clock,
    directory: Directory,
    config: TopicConfig,
    *,
    rng: random.Random,
    start_offset: int = 0,
    producer_expiration_ms: int,
    found: FoundLog | None = None,
) -> LogParts:
    """Open the log in a directory, which may be empty; the log begins at `start_offset` or later.

    All bytes in the directory are trusted to be on disk. Only the last segment is opened. `found` is what recovery has
    read of the directory; without it, this function reads it.
    """
    now_ms, jitter_ms = clock.now_ms(), draw_jitter_ms(config, rng)
    if found is None:
        found = _look(directory)
    bases = found.bases
    closed = [Segment(directory, base_offset) for base_offset in bases[:-1]]
    make = WritableSegment.open_writing if bases else WritableSegment.create
    base_offset = bases[-1] if bases else start_offset
    active = make(directory, base_offset, config, now_ms=now_ms, jitter_ms=jitter_ms)
    try:
        checkpointed_start = start_offset
        start_offset = max(start_offset, bases[0] if bases else start_offset)
        end_offset = max(found.end_offset, start_offset)
        snapshots = SnapshotFiles(directory, offsets=found.snapshots)
        producers = ProducerStates(directory, expiration_ms=producer_expiration_ms, snapshots=snapshots)
        producers.snapshots.remove_strays([*bases, base_offset])
        producers.truncate_and_reload(checkpointed_start, end_offset, now_ms)
        if producers.end_offset < end_offset:
            replay(producers, [*closed, active], end_offset)
        producers.on_high_watermark(end_offset)
        epochs = LeaderEpochs(directory, found.epochs)
        epochs.truncate_from_start(start_offset)
        epochs.truncate_from_end(end_offset)
        if not bases:
            active.flush()
    except BaseException:
        active.close()
        raise
    return LogParts(closed, active, start_offset, end_offset, end_offset, producers, epochs)


def _look(directory: Directory) -> FoundLog:
    """Read the contents of a closed log's directory."""
    texts = directory.names()
    check_few_segments(texts, directory)
    bases = live_offsets(texts, Kind.LOG)
    end_offset = Segment(directory, bases[-1]).read_next_offset() if bases else 0
    epochs = LeaderEpochs.load(directory).entries
    return FoundLog(tuple(bases), end_offset, tuple(live_offsets(texts, Kind.SNAPSHOT)), epochs)
