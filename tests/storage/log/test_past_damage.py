"""Reading on after damage: what is told, what is passed over in silence, and what is found again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from storage.errors import ChecksumError, CorruptBatchError, FramingError, MisplacedBatchError
from storage.log.aborted_batches import AbortedBatches
from storage.log.followed_log import FollowedLog
from storage.log.past_damage import batches_past_damage
from storage.record.control import EndTransactionMarker
from storage.record.encoding import BatchForm, batches_of_rows, marker_batch
from storage.record.reading import read_batches
from storage.segment.index.entries import AbortedTransaction
from storage.testing.codec import OracleRecord, encode_entry, entry_of

if TYPE_CHECKING:
    from storage.log.view import LogView
    from storage.record.reading import Batch

LOG = f"{DIRECTORY}/{0:020}.log"


def filled(count: int = 10) -> LogOnMemory:
    """Batches of three records, eight to the first segment."""
    lab = LogOnMemory()
    for number in range(count):
        lab.log.append_as_leader(sent([(NOW_MS, b"%d" % number)] * 3))
        if number == 7:
            lab.log.roll()
    return lab


def follow(lab: LogOnMemory) -> LogView:
    return FollowedLog(lab.clock, lab.files.directory(DIRECTORY), lab.config, producer_expiration_ms=1).view


def positions(lab: LogOnMemory) -> list[int]:
    return [batch.position for batch in lab.log.view.segments[0].batches()]


def write(lab: LogOnMemory, position: int, data: bytes) -> None:
    with lab.files.open_writing(LOG) as file:
        file.write_at(position, [data])


def found(view: LogView, offset: int) -> list[int | type[Exception]]:
    """The first offsets of the batches, and the kinds of damage between them."""
    pieces = batches_past_damage(view, offset)
    return [type(piece) if isinstance(piece, CorruptBatchError) else piece.base_offset for _, piece in pieces]


def test_without_damage_all_is_there_from_the_batch_with_the_offset_on() -> None:
    lab = filled()
    for view in (lab.log.view, follow(lab)):
        assert found(view, 0) == list(range(0, 30, 3))
        assert found(view, 13) == list(range(12, 30, 3))
        assert found(view, 29) == [27]
        assert found(view, 30) == []


def test_a_wrong_checksum_leaves_the_others_as_they_are() -> None:
    lab = filled()
    write(lab, positions(lab)[4] - 1, b"\xff")
    for view in (lab.log.view, follow(lab)):
        assert found(view, 0) == [0, 3, 6, ChecksumError, *range(12, 30, 3)]
        for offset in (9, 10, 11):
            assert found(view, offset) == [ChecksumError, *range(12, 30, 3)]
        assert found(view, 12) == [*range(12, 30, 3)]
        assert found(view, 6)[:2] == [6, ChecksumError]


def test_where_framing_is_lost_the_next_sound_batch_is_sought() -> None:
    lab = filled()
    write(lab, positions(lab)[3] + 8, b"\xff\xff\xff\xff")
    for view in (lab.log.view, follow(lab)):
        assert found(view, 0) == [0, 3, 6, FramingError, *range(12, 30, 3)]
        assert found(view, 10) == [FramingError, *range(12, 30, 3)]
        assert found(view, 12) == [*range(12, 30, 3)]


def test_a_length_that_leads_astray_hides_no_batch() -> None:
    lab = filled()
    starts = positions(lab)
    write(lab, starts[3] + 8, (starts[5] - starts[3] - 12 - 7).to_bytes(4, "big"))
    assert found(lab.log.view, 0) == [0, 3, 6, ChecksumError, *range(12, 30, 3)]
    write(lab, starts[3] + 8, (1 << 20).to_bytes(4, "big"))  # far beyond the segment
    assert found(lab.log.view, 0) == [0, 3, 6, FramingError, *range(12, 30, 3)]


def test_what_is_missing_at_the_end_of_a_segment_is_damage_unless_it_is_zeros() -> None:
    lab = filled()
    data = lab.files.read(LOG)
    with lab.files.open_writing(LOG) as file:
        file.truncate(len(data) - 5)
    assert found(follow(lab), 0) == [*range(0, 21, 3), FramingError, 24, 27]
    write(lab, 0, data)
    with lab.files.open_writing(LOG) as file:
        file.truncate(len(data) + 100)
    assert found(follow(lab), 0) == list(range(0, 30, 3))


def test_what_is_cut_off_within_a_view_is_told() -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent(b"a"))
    lab.log.append_as_leader(sent(b"b"))
    view = lab.log.view
    with lab.files.open_writing(LOG) as file:
        file.truncate(positions(lab)[1])
    assert found(view, 0) == [0, FramingError]


def test_offsets_that_cannot_be_the_segments_are_damage() -> None:
    lab = filled()
    write(lab, positions(lab)[3], (1 << 40).to_bytes(8, "big"))
    assert found(lab.log.view, 0) == [0, 3, 6, MisplacedBatchError, *range(12, 30, 3)]


def test_offsets_that_are_out_of_order_are_told_and_nothing_is_left_out() -> None:
    lab = filled()
    write(lab, positions(lab)[3], (18).to_bytes(8, "big"))
    assert found(lab.log.view, 0) == [0, 3, 6, 18, MisplacedBatchError, *range(12, 30, 3)]


def test_a_segment_that_is_gone() -> None:
    lab = filled()
    view = follow(lab)
    lab.files.remove(LOG)
    with pytest.raises(FileNotFoundError):
        found(view, 0)
    assert found(view, 24) == [24, 27]


# What consumers do not see


def batch(producer_id: int, base_offset: int, *, transactional: bool = True) -> Batch:
    form = BatchForm(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=transactional)
    (data,) = batches_of_rows([(NOW_MS, None, b"", ())] * 2, base_offset=base_offset, form=form)
    return next(read_batches(data))


def test_the_batches_of_aborted_transactions() -> None:
    aborted = AbortedBatches(
        [AbortedTransaction(1, 50, 60, 50), AbortedTransaction(2, 12, 20, 10), AbortedTransaction(1, 10, 20, 10)]
    )
    for base_offset, producer_id, expected in [
        (8, 1, False),
        (10, 1, True),
        (18, 1, True),
        (21, 1, False),
        (48, 1, False),
        (50, 1, True),
        (61, 1, False),
        (10, 2, False),
        (12, 2, True),
        (12, 3, False),
    ]:
        assert aborted.has(batch(producer_id, base_offset)) is expected
    assert not aborted.has(batch(1, 12, transactional=False))
    assert not AbortedBatches([]).has(batch(1, 12))


def test_control_batches() -> None:
    marker = EndTransactionMarker(committed=True, coordinator_epoch=0)
    data = marker_batch(marker, offset=3, timestamp_ms=NOW_MS, producer_id=1, producer_epoch=0)
    assert next(read_batches(data)).is_control
    assert not batch(1, 12).is_control
    assert not next(read_batches(encode_entry(entry_of(OracleRecord(0, NOW_MS, None, b""), 1)))).is_control
