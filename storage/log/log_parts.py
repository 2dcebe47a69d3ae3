"""The parts of a log, which opening and recovery build from a directory and hand to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.log.epochs import LeaderEpochs
    from storage.log.producers.producers import ProducerStates
    from storage.segment.segment import Segment
    from storage.segment.writable_segment import WritableSegment


class LogParts(NamedTuple):
    """The parts of a log whose directory is sound.

    `closed` are all segments but the active one, ascending. The producers and the epochs know the log to its end.
    """

    closed: Sequence[Segment]
    active: WritableSegment
    start_offset: int
    end_offset: int
    recovery_point: int
    producers: ProducerStates
    epochs: LeaderEpochs
