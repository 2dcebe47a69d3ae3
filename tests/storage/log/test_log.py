"""What a log does when it is appended to: its answers, where it rolls, what it flushes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from memory_logs import DIRECTORY, NOW_MS, SETTINGS, LogOnMemory, sent

from storage.errors import BatchTooLargeError, RefusedAppendError, StorageError
from storage.log.view import Isolation
from storage.record import BatchForm
from storage.testing.codec import OracleRecord, batch_of, encode_batch

COMMITTED = Isolation.COMMITTED


# Appending


def test_a_batch_that_is_sent_again_is_answered_with_its_old_offsets() -> None:
    lab = LogOnMemory()
    log = lab.log
    assert [lab.produce(b"%d" % number, number) for number in range(7)] == list(range(7))
    form = BatchForm(producer_id=7, producer_epoch=0, base_sequence=4)
    assert log.append_as_leader(sent(b"4", form)) == (4, 4, True)
    with pytest.raises(RefusedAppendError):
        lab.produce(b"1", 1)  # no longer among the last five
    assert log.view.end_offset == 7


def test_a_refused_append_changes_nothing_and_does_not_roll() -> None:
    lab = LogOnMemory()
    lab.produce(b"x" * 3000, 0)
    before = lab.contents()
    with pytest.raises(RefusedAppendError):
        lab.produce(b"x" * 3000, 5)
    assert lab.contents() == before
    assert lab.log.view.bases == (0,)


def test_a_batch_that_no_segment_can_hold_is_refused() -> None:
    with pytest.raises(BatchTooLargeError, match="is 4096"):
        LogOnMemory().log.append_as_leader(sent(b"x" * 4096))


def test_leader_epochs_are_noted_where_they_begin() -> None:
    lab = LogOnMemory()
    for epoch in (0, 0, 3, 3, 4):
        lab.log.append_as_leader(sent(b"x"), leader_epoch=epoch)
    assert lab.files.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n3\n0 0\n3 2\n4 4\n"


def test_a_followers_batches_keep_their_offsets_and_roll_to_the_first_of_them() -> None:
    lab = LogOnMemory()

    def batch(offset: int) -> bytes:
        return encode_batch(batch_of([OracleRecord(offset, NOW_MS, b"k", b"x" * 1500)]))

    lab.log.append_as_follower([batch(5) + batch(9)])
    lab.log.append_as_follower([batch(5)[:40]])
    assert lab.log.view.end_offset == 10
    lab.log.append_as_follower([batch(2**31 + 100)])
    assert lab.log.view.end_offset == 2**31 + 101
    assert lab.log.view.bases == (0, 2**31 + 100)
    with pytest.raises(StorageError):
        lab.log.append_as_follower([batch(100)])
    assert [batch.base_offset for batch in lab.log.read(0).batches] == [5, 9, 2**31 + 100]
    assert lab.log.read(10).batches[0].base_offset == 2**31 + 100


# Rolling


def test_a_roll_finishes_the_segment_and_writes_a_snapshot() -> None:
    lab = LogOnMemory({**SETTINGS, "preallocate": "true"})
    for number in range(4):
        lab.produce(b"x" * 900, number)
    lab.produce(b"x" * 900, 4)
    assert lab.log.view.bases == (0, 4)
    files = lab.contents()
    size_bytes = sum(batch.size_bytes for batch in lab.log.view.batches(0) if batch.last_offset < 4)
    assert len(files["00000000000000000000.log"]) == size_bytes
    assert len(files["00000000000000000004.log"]) == 4096
    assert len(files["00000000000000000000.index"]) == 3 * 8
    assert len(files["00000000000000000000.timeindex"]) == 12
    assert len(files["00000000000000000004.index"]) == 1200
    assert "00000000000000000004.snapshot" in files
    lab.log.close()
    assert len(lab.contents()["00000000000000000004.log"]) == size_bytes // 4


def test_the_age_that_rolls_is_that_of_the_records() -> None:
    lab = LogOnMemory({"segment.ms": "1000"})
    lab.log.append_as_leader(sent([(5000, b"a")]))
    lab.clock.ms += 10_000
    lab.log.append_as_leader(sent([(6000, b"b")]))
    lab.log.append_as_leader(sent([(100, b"c")]))
    assert lab.log.view.bases == (0,)
    lab.log.append_as_leader(sent([(6001, b"d")]))
    assert lab.log.view.bases == (0, 3)


def test_without_timestamps_the_segments_own_age_rolls() -> None:
    lab = LogOnMemory({"segment.ms": "1000"})
    lab.log.append_as_leader(sent([(-1, b"a")]))
    lab.clock.ms += 1000
    lab.log.append_as_leader(sent([(-1, b"b")]))
    assert lab.log.view.bases == (0,)
    lab.clock.ms += 1
    lab.log.append_as_leader(sent([(-1, b"c")]))
    assert lab.log.view.bases == (0, 2)


def test_a_full_index_rolls_and_an_empty_segment_never_does() -> None:
    lab = LogOnMemory({"segment.index.bytes": "36", "index.interval.bytes": "0"})
    for number in range(6):
        lab.log.append_as_leader(sent([(NOW_MS + number, b"x")]))
    assert lab.log.view.bases == (0, 3)  # two time entries, and the slot for the final one
    tiny = LogOnMemory({"segment.index.bytes": "12", "index.interval.bytes": "0"})
    for number in range(3):
        tiny.log.append_as_leader(sent([(NOW_MS + number, b"x")]))
    assert tiny.log.view.bases == (0, 1, 2)
    assert tiny.values() == [b"x"] * 3


def test_jitter_rolls_earlier() -> None:
    lab = LogOnMemory({"segment.ms": "100000", "segment.jitter.ms": "100000"})
    for number in range(40):
        lab.log.append_as_leader(sent([(NOW_MS + number * 10_000, b"x")]))
    bases = lab.log.view.bases
    lengths = {later - earlier for earlier, later in pairwise(bases)}
    assert len(lengths) > 1
    assert max(lengths) <= 11


# Flushing


def test_the_recovery_point_follows_flushes() -> None:
    lab = LogOnMemory({**SETTINGS, "flush.messages": "5"})
    points = []
    for _ in range(12):
        lab.log.append_as_leader(sent(b"x"))
        points.append(lab.log.recovery_point)
    assert points == [0] * 4 + [5] * 5 + [10] * 3
    lab.log.roll()
    assert lab.log.recovery_point == 10
    lab.run_tasks()
    assert lab.log.recovery_point == 12


def test_a_flush_is_due_after_its_time_if_there_is_something_to_flush() -> None:
    lab = LogOnMemory({"flush.ms": "100"})
    lab.clock.ms += 1000
    assert not lab.log.flush_if_due()
    lab.log.append_as_leader(sent(b"x"))
    assert lab.log.flush_if_due()
    lab.log.append_as_leader(sent(b"x"))
    assert not lab.log.flush_if_due()
    lab.clock.ms += 100
    assert lab.log.flush_if_due()
    assert lab.log.recovery_point == 2


def test_a_flush_covers_segments_whose_own_flush_still_waits() -> None:
    lab = LogOnMemory()
    for _ in range(3):
        lab.log.append_as_leader(sent(b"x"))
        lab.log.roll()
    lab.log.flush()
    survivor = lab.files.after_power_loss(seed=1)
    assert lab.log.recovery_point == 3
    again = LogOnMemory(files=survivor)
    assert again.values() == [b"x"] * 3
    lab.run_tasks()
    lab.log.close()


def test_a_closed_log_takes_nothing_and_opens_as_it_was() -> None:
    lab = LogOnMemory()
    for number in range(20):
        lab.produce(b"%d" % number * 200, number)
    lab.log.close()
    lab.log.close()
    with pytest.raises(StorageError, match="closed"):
        lab.log.append_as_leader(sent(b"x"))
    survivor = LogOnMemory(files=lab.files.after_power_loss(seed=2), clock=lab.clock)
    assert survivor.values() == [b"%d" % number * 200 for number in range(20)]
    assert survivor.produce(b"19" * 200, 19) == 19  # a duplicate
    assert survivor.produce(b"20", 20) == 20
