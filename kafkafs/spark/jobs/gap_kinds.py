"""The kinds of gaps in a log: of offsets, times and the sequences of producers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.record import LAST_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    Producer: TypeAlias = tuple[int, int]  # its id and epoch

_SEQUENCES: Final = LAST_SEQUENCE + 1


class GapKind(StrEnum):
    """The kind of a gap."""

    HOLE = "hole"  # offsets that the log passes over
    DUPLICATE = "duplicate"  # offsets that it goes back to
    TIME_REGRESSION = "time_regression"  # all of a partition together, at the largest
    SEQUENCE_GAP = "sequence_gap"  # sequences that a producer's next batch passes over
    SEQUENCE_DUPLICATE = "sequence_duplicate"  # sequences that it goes back to
    DAMAGE = "damage"  # batches that do not decode


class Place(NamedTuple):
    """A place in a partition's directory: a log's name, and the position of a batch."""

    log_name: str
    position: int


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that is out of order.

    The offsets are the missing ones, or those that the log goes back over; for a batch out of sequence its own; for
    times that of the record with the largest step back. The last is included; unknown ones are None. `extent` is the
    number of offsets, sequences or records. `place` is that of the batch after the gap.
    """

    kind: GapKind
    first_offset: int | None
    last_offset: int | None
    extent: int | None
    place: Place | None
    regression_ms: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    expected_sequence: int | None = None
    reason: str | None = None


class Lost(NamedTuple):
    """Damage: why it does not decode, and where, if that is known."""

    reason: str
    place: Place | None


class Beginning(NamedTuple):
    """The first offset or sequence of a batch, its offsets, and its place."""

    begin: int
    first_offset: int
    last_offset: int
    place: Place


def between(next_offset: int, first: Beginning) -> Iterator[Gap]:
    """Yield the gap between the expected offset and the next batch."""
    if first.begin > next_offset:
        yield hole(next_offset, first.begin, first.place)
    elif first.begin < next_offset:
        yield Gap(GapKind.DUPLICATE, first.begin, next_offset - 1, next_offset - first.begin, first.place)


def between_sequences(producer: Producer, last_sequence: int, first: Beginning) -> Iterator[Gap]:
    """Yield the gap between a producer's last sequence and its next batch."""
    expected = 0 if last_sequence == LAST_SEQUENCE else last_sequence + 1
    ahead = (first.begin - expected) % _SEQUENCES
    if ahead == 0:
        return
    is_gap = ahead < _SEQUENCES // 2
    yield Gap(
        GapKind.SEQUENCE_GAP if is_gap else GapKind.SEQUENCE_DUPLICATE,
        first.first_offset,
        first.last_offset,
        ahead if is_gap else _SEQUENCES - ahead,
        first.place,
        producer_id=producer[0],
        producer_epoch=producer[1],
        sequence=first.begin,
        expected_sequence=expected,
    )


def within(offsets: Sequence[int], begin: int, last_offset: int, place: Place) -> Iterator[Gap]:
    """Yield the gaps among the offsets of one batch."""
    next_offset = begin
    for offset in offsets:
        if offset != next_offset:
            yield from between(next_offset, Beginning(offset, offset, offset, place))
        next_offset = offset + 1
    if next_offset <= last_offset:
        yield hole(next_offset, last_offset + 1, place)


def hole(offset: int, end_offset: int, place: Place | None) -> Gap:
    """Return the gap of missing offsets up to the end, which is excluded."""
    return Gap(GapKind.HOLE, offset, end_offset - 1, end_offset - offset, place)


def damages(lost: Sequence[Lost], next_offset: int | None, end_offset: int | None) -> Iterator[Gap]:
    """Yield damage without a sound batch in between: the next offset was due, and the log goes on at the end offset."""
    last_offset = None if end_offset is None else end_offset - 1
    extent = None if next_offset is None or end_offset is None else max(end_offset - next_offset, 0)
    for each in lost:
        yield Gap(GapKind.DAMAGE, next_offset, last_offset, extent, each.place, reason=each.reason)
