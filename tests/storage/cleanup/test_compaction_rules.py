"""What one run of the cleaner keeps of a log, rule by rule."""

from __future__ import annotations

import pytest
from keyed_logs import COMPACT, KeyedLog
from memory_logs import NOW_MS
from soundness import damages

from storage.errors import CompactionError
from storage.record import Codec
from storage.record.encoding import BatchForm
from storage.segment.names import Kind


def test_the_last_record_of_each_key_stays() -> None:
    log = KeyedLog()
    log.put(("a", "1"), ("b", "2"), ("a", "3"))
    log.put(("b", "4"), ("c", "5"))
    log.log.roll()
    log.put(("a", "6"))
    report = log.compact()
    assert log.rows() == [(2, "a", "3"), (3, "b", "4"), (4, "c", "5"), (5, "a", "6")]
    assert (report.start_offset, report.first_dirty_offset, report.map_keys) == (0, 5, 3)
    assert (report.records.read, report.records.kept, report.records.superseded) == (5, 3, 2)
    assert (report.records.batches_read, report.records.batches_kept, report.records.batches_unchanged) == (2, 2, 1)
    assert report.freed_bytes == report.before_bytes - report.after_bytes > 0


def test_tombstones_go_in_two_passes() -> None:
    log = KeyedLog()
    log.put(("a", "1"), ("b", "2"))
    log.put(("a", None), ("c", "3"))
    log.log.roll()
    log.compact()
    assert log.rows() == [(1, "b", "2"), (2, "a", None), (3, "c", "3")]
    assert [batch.delete_horizon_ms for batch in log.batches()] == [None, NOW_MS + 1000]
    log.clock.ms = NOW_MS + 999
    log.compact()
    assert (2, "a", None) in log.rows()
    log.clock.ms = NOW_MS + 1000
    assert log.compact().records.expired == 1
    assert log.rows() == [(1, "b", "2"), (3, "c", "3")]
    assert [batch.delete_horizon_ms for batch in log.batches()] == [None, NOW_MS + 1000]


def test_a_retention_without_end_makes_no_horizon_that_has_passed() -> None:
    log = KeyedLog({**COMPACT, "delete.retention.ms": str(2**63 - 1)})
    log.put(("a", None), ("b", "1"))
    log.log.roll()
    log.compact()
    assert [batch.delete_horizon_ms for batch in log.batches()] == [2**63 - 1]


def test_markers_go_in_two_passes_once_nothing_is_left_between_them() -> None:
    log = KeyedLog({**COMPACT, "segment.bytes": "100000"})
    for number, committed in enumerate((True, False)):
        form = BatchForm(producer_id=8, producer_epoch=0, base_sequence=number, transactional=True)
        log.put(("a", f"{number}"), form=form)
        log.end_transaction(8, committed=committed)
    log.put(("a", "later"))
    log.put(("a", "more"), form=BatchForm(producer_id=8, producer_epoch=0, base_sequence=2, transactional=True))
    log.end_transaction(8, committed=True)
    log.log.roll()
    found = []
    for after_ms in (0, 0, 500, 1000):
        log.clock.ms = NOW_MS + after_ms
        log.compact()
        found.append([(batch.base_offset, batch.delete_horizon_ms) for batch in log.batches()])
        assert log.rows() == [(5, "a", "more")]
    horizon_ms = NOW_MS + 1000
    assert found == [
        [(1, None), (3, None), (5, None), (6, None)],
        [(1, horizon_ms), (3, horizon_ms), (5, None), (6, None)],
        [(1, horizon_ms), (3, horizon_ms), (5, None), (6, None)],
        [(5, None), (6, None)],
    ]


def test_the_index_tells_of_aborted_transactions_as_long_as_they_have_data() -> None:
    log = KeyedLog()
    log.put(("a", "1"), form=BatchForm(producer_id=8, producer_epoch=0, base_sequence=0, transactional=True))
    log.end_transaction(8, committed=False)
    log.log.roll()
    path = log.log.view.segments[0].path(Kind.TRANSACTION_INDEX)
    entries = log.files.read(path)
    assert len(entries) == 34
    log.compact()
    # The data stays, empty, because it is the last of its producer; its marker has to stay with it.
    assert [(batch.base_offset, batch.count) for batch in log.batches()] == [(0, 0), (1, 1)]
    assert log.files.read(path) == entries
    log.put(("b", "2"), form=BatchForm(producer_id=8, producer_epoch=0, base_sequence=1))
    log.log.roll()
    log.compact()
    log.compact()
    assert log.files.status(path) is None
    assert [(batch.base_offset, batch.count) for batch in log.batches()] == [(1, 1), (2, 1)]


def test_a_marker_that_is_all_that_is_left_needs_no_entry_although_a_snapshot_tells_of_its_transaction() -> None:
    log = KeyedLog({**COMPACT, "segment.bytes": "500"})
    form = BatchForm(producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    log.put(("keep", "k" * 150))
    log.put(("a", "1" * 150), form=form)
    log.log.roll()
    log.end_transaction(8, committed=False)
    log.put(("b", "2" * 150), form=BatchForm(producer_id=8, producer_epoch=0, base_sequence=1))
    log.log.roll()
    for _ in range(2):
        log.compact()
        assert damages(log, 0) == []
    assert [(batch.base_offset, batch.delete_horizon_ms) for batch in log.batches()] == [
        (0, None),
        (2, NOW_MS + 1000),
        (3, None),
    ]
    assert log.files.status(log.log.view.segments[1].path(Kind.TRANSACTION_INDEX)) is None


def test_the_batch_that_ends_a_run_stays_and_with_it_the_logs_end() -> None:
    log = KeyedLog()
    log.put(("a", "1"))
    log.put(("a", None))
    log.log.roll()
    log.compact()
    log.clock.ms += 1000
    log.compact()
    (last,) = log.batches()
    assert (last.base_offset, last.last_offset, last.count, last.delete_horizon_ms) == (1, 1, 0, None)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_changed_batch_keeps_its_codec_and_others_their_bytes(codec: Codec) -> None:
    log = KeyedLog()
    log.put(("a", "1" * 100), ("b", "2" * 100), form=BatchForm(codec=codec))
    log.put(("a", "3" * 100), form=BatchForm(codec=codec, level=None))
    log.log.roll()
    before = bytes(log.batches()[1].view(0, log.batches()[1].size_bytes))
    log.compact()
    changed, same = log.batches()
    assert (changed.codec, changed.count, changed.last_offset_delta) == (codec, 1, 1)
    assert bytes(same.view(0, same.size_bytes)) == before


def test_a_full_map_ends_a_run_and_the_next_one_goes_on_there() -> None:
    log = KeyedLog()
    log.put(*((f"k{number}", "1") for number in range(6)))
    log.put(*((f"k{number}", "2") for number in range(6)))
    log.log.roll()
    report = log.compact(keys_max=4)
    assert (report.first_dirty_offset, report.is_map_full, report.map_load) == (4, True, 1.0)
    assert report.records.kept == 12
    report = log.compact(checkpoint=4, keys_max=4)
    assert (report.first_dirty_offset, report.records.superseded) == (8, 2)
    report = log.compact(checkpoint=8, keys_max=4)
    assert (report.first_dirty_offset, report.is_map_full) == (12, False)
    assert [offset for offset, _, _ in log.rows()] == [6, 7, 8, 9, 10, 11]


def test_a_map_without_room_is_an_error() -> None:
    log = KeyedLog()
    log.put(("a", "1"))
    log.log.roll()
    with pytest.raises(CompactionError, match="room for no key"):
        log.compact(keys_max=0)


def test_what_grows_too_large_becomes_several_segments() -> None:
    """A batch that gets a horizon is larger than before, and so may be a segment."""
    log = KeyedLog({**COMPACT, "segment.bytes": "500"})
    for number in range(5):
        log.put((f"k{number}", None), (f"l{number}", "1"), (f"m{number}", "1"))
    log.log.roll()
    (size_bytes,) = (segment.size_bytes for segment in log.log.view.segments[:-1])
    log.log.config = type(log.config).resolve({**COMPACT, "segment.bytes": str(size_bytes)})
    report = log.compact()
    assert (report.segments_before, report.segments_after) == (1, 2)
    assert log.log.view.bases == (0, 12, 15)
    assert [len(log.log.view.segments[index].name(Kind.LOG)) for index in range(2)] == [24, 24]
    assert [offset for offset, _, _ in log.rows()] == list(range(15))
    assert all(segment.size_bytes <= size_bytes for segment in log.log.view.segments)


def test_segments_keep_the_time_of_the_last_that_they_are_made_of() -> None:
    log = KeyedLog()
    for number in range(3):
        log.files.now_ms = NOW_MS + number
        log.put(("a", f"{number}" * 50))
        log.log.roll()
    log.files.now_ms = NOW_MS + 1000
    log.compact()
    status = log.log.view.segments[0].log_status()
    assert log.log.view.bases == (0, 3)
    assert status is not None
    assert status.modified_ms == NOW_MS + 2
