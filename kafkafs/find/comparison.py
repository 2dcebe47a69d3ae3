"""Two copies of a partition compared: the first batch in which they differ, and if truncation would reconcile them.

Equal copies are compared as bytes, at the speed of reading. Control batches, producers and leader epochs are part of
the bytes. Where the copies begin at different offsets, what only one of them has before the other's start is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkafs.find.batch_stream import BatchStream, pass_equal
from kafkafs.find.equal_parts import equal_parts
from storage.errors import CorruptBatchError
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from storage.log import FollowedLog, LeaderEpochs, Log, LogView
    from storage.record import Batch

_FIELDS: Final[Mapping[str, Callable[[Batch], object]]] = {
    "baseOffset": lambda batch: batch.read_first_offset(),
    "lastOffset": lambda batch: batch.last_offset,
    "records": lambda batch: batch.count,
    "leaderEpoch": lambda batch: batch.leader_epoch,
    "magic": lambda batch: batch.magic,
    "codec": lambda batch: batch.codec.label,
    "timestampType": lambda batch: batch.timestamp_type.label,
    "maxTimestamp": lambda batch: batch.max_timestamp,
    "producerId": lambda batch: batch.producer_id,
    "producerEpoch": lambda batch: batch.producer_epoch,
    "baseSequence": lambda batch: batch.base_sequence,
    "isTransactional": lambda batch: batch.is_transactional,
    "isControl": lambda batch: batch.is_control,
    "deleteHorizonMs": lambda batch: batch.delete_horizon_ms,
    "bytes": lambda batch: batch.size_bytes,
    "crc": lambda batch: batch.crc,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A copy where the two differ: its bounds, and its batch there, if it has one.

    `truncated_to` is where it would end if it followed the other copy as its leader; None if the leader epochs do not
    tell.
    """

    start_offset: int
    end_offset: int
    segment: str | None = None
    position: int | None = None
    fields: Mapping[str, Any] | None = None
    damage: str | None = None
    truncated_to: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result: the same unless there is an `offset`, from which on the copies differ.

    `fields` are the names of what differs in the headers of the two batches; none if only their contents do.
    `has_same_records` says that the records in the two are equal all the same, as with another codec.
    """

    one: Side
    other: Side
    equal_bytes: int
    offset: int | None = None
    fields: tuple[str, ...] = ()
    has_same_records: bool | None = None

    @property
    def is_same(self) -> bool:
        """True if the copies are equal wherever both have offsets, and end together."""
        return self.offset is None


def compare(one: Log | FollowedLog, other: Log | FollowedLog, advance: Callable[[int], None]) -> Comparison:
    """Compare two copies; `advance` is called with the bytes that were found equal since the last call."""
    mine, others = one.view, other.view
    start = max(mine.start_offset, others.start_offset)
    equal_bytes = 0
    for part in equal_parts(mine, others, start):
        start = part.end_offset
        equal_bytes += part.size_bytes
        advance(part.size_bytes)
    with BatchStream(mine, start) as first, BatchStream(others, start) as second:
        for size_bytes in pass_equal(first, second):
            equal_bytes += size_bytes
            advance(size_bytes)
        left, left_damage = _next(first)
        right, right_damage = _next(second)
        is_same = left is right is None and left_damage is right_damage is None
        offsets = [batch.read_first_offset() for batch in (left, right) if batch is not None]
        ends = [view.end_offset for view, batch in ((mine, left), (others, right)) if batch is None]
        return Comparison(
            one=_side(mine, first, left, left_damage, _truncation(other, others, one, mine)),
            other=_side(others, second, right, right_damage, _truncation(one, mine, other, others)),
            equal_bytes=equal_bytes,
            offset=None if is_same else min([*offsets, *ends]),
            fields=() if left is None or right is None else _differing(left, right),
            has_same_records=None if left is None or right is None else _same_records(left, right),
        )


def _next(stream: BatchStream) -> tuple[Batch | None, str | None]:
    try:
        return stream.batch(), None
    except CorruptBatchError as error:
        return None, str(error)


def _side(
    view: LogView, stream: BatchStream, batch: Batch | None, damage: str | None, truncated_to: int | None
) -> Side:
    is_there = batch is not None and stream.segment is not None
    return Side(
        start_offset=view.start_offset,
        end_offset=view.end_offset,
        segment=stream.segment.name(Kind.LOG) if is_there and stream.segment is not None else None,
        position=None if batch is None else batch.position,
        fields=None if batch is None else {name: field(batch) for name, field in _FIELDS.items()},
        damage=damage if batch is None or batch.crc_matches else "the batch has a wrong checksum",
        truncated_to=truncated_to,
    )


def _differing(left: Batch, right: Batch) -> tuple[str, ...]:
    return tuple(name for name, field in _FIELDS.items() if field(left) != field(right))


def _same_records(left: Batch, right: Batch) -> bool | None:
    """Return True if the batches hold equal records; None if one does not decode."""
    try:
        left.check_crc()
        right.check_crc()
        return list(left.checked_records()) == list(right.checked_records())
    except CorruptBatchError:
        return None


def _truncation(
    leader: Log | FollowedLog, leader_view: LogView, follower: Log | FollowedLog, view: LogView
) -> int | None:
    """Return the offset to which a follower truncates its log to follow a leader; None if the epochs do not tell."""
    try:
        return truncation_offset(leader.epochs, leader_view.end_offset, follower.epochs, view.end_offset)
    except CorruptBatchError:
        return None


def truncation_offset(leader: LeaderEpochs, leader_end: int, follower: LeaderEpochs, end: int) -> int | None:
    """Return where a follower's log ends once it agrees with its leader about the epochs, as Kafka's brokers do it.

    The follower asks for the end of its last epoch. The leader answers with its own last epoch up to that one, and with
    its end; if the follower does not have that epoch, it asks for the next one below.
    """
    latest = leader.latest_epoch
    epochs = [entry.epoch for entry in follower.entries]
    while epochs and latest is not None:
        epoch = epochs.pop()
        answer = leader.end_of(min(epoch, latest), leader_end)
        mine = None if answer is None else follower.end_of(answer.epoch, end)
        if answer is not None and mine is not None and mine.epoch == answer.epoch:
            return min(answer.offset, mine.offset)
    return None
