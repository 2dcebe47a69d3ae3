"""What readers of a log see while it changes, and what a truncation leaves."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, SETTINGS, LogOnMemory, sent

from storage.clock import Clock
from storage.config import TopicConfig
from storage.errors import ChecksumError, OffsetOutOfRangeError
from storage.files import Files, ReadableFile
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.view import FetchResult, Isolation, LogView
from storage.record.compression import Codec
from storage.record.encoding import BatchForm
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

COMMITTED = Isolation.COMMITTED


def values(fetched: FetchResult) -> list[bytes | None]:
    return [record.value for batch in fetched.batches for record in batch.records()]


def all_values(view: LogView) -> list[bytes | None]:
    return [record.value for batch in view.batches(view.start_offset) for record in batch.records()]


def test_reading_begins_with_the_batch_that_holds_the_offset_and_ends_with_the_bytes() -> None:
    log = LogOnMemory().log
    for number in range(4):
        log.append_as_leader(sent([(NOW_MS, b"%d" % number * 1000), (NOW_MS, b"")]))
    size_bytes = log.read(0, max_bytes=1).batches[0].size_bytes
    for max_bytes, count in ((1, 1), (size_bytes, 1), (2 * size_bytes - 1, 1), (2 * size_bytes, 2), (10**6, 4)):
        found = log.read(1, max_bytes=max_bytes)
        assert [batch.base_offset for batch in found.batches] == [0, 2, 4, 6][:count]
        assert found.next_offset == 2 * count
    assert log.read(8) == ([], 8, [])


def test_offsets_that_the_log_does_not_have() -> None:
    log = LogOnMemory().log
    for number in range(4):
        log.append_as_leader(sent(b"%d" % number))
    log.advance_start(2)
    assert values(log.read(2)) == [b"2", b"3"]
    for offset in (1, 5, -1):
        with pytest.raises(OffsetOutOfRangeError, match="the log has offsets 2 to 3"):
            log.read(offset)
    with pytest.raises(OffsetOutOfRangeError, match="ends at 4"):
        log.advance_start(5)
    log.advance_start(1)
    assert log.view.start_offset == 2


def test_transactions_hold_readers_of_committed_records_back_and_aborted_ones_are_left_out() -> None:
    lab = LogOnMemory()
    log = lab.log
    lab.produce(b"open" * 400, 0, producer_id=1, transactional=True)
    lab.produce(b"plain" * 400, 0, producer_id=2)
    lab.produce(b"aborted" * 200, 0, producer_id=3, transactional=True)
    assert log.view.last_stable_offset == 0
    assert log.read(0, isolation=COMMITTED) == ([], 0, [])
    lab.end_transaction(3, committed=False)
    assert log.view.last_stable_offset == 0
    lab.end_transaction(1, committed=True)
    assert log.view.last_stable_offset == 5
    found = log.read(0, isolation=COMMITTED)
    assert [batch.base_offset for batch in found.batches] == [0, 1, 3, 4]
    assert found.next_offset == 5
    assert [batch.base_offset for batch in log.read(0).batches] == [0, 1, 2, 3, 4]
    assert found.aborted == [(3, 2, 3, 0)]
    assert log.read(0).aborted == []
    assert log.read(4, isolation=COMMITTED).aborted == []
    latest = log.list_offset(-1, isolation=COMMITTED)
    lab.produce(b"open", 1, producer_id=1, transactional=True)
    assert latest == log.list_offset(-1, isolation=COMMITTED) == (5, -1, -1)
    assert log.list_offset(-1) == (6, -1, -1)


def test_aborted_transactions_are_found_in_later_segments() -> None:
    lab = LogOnMemory()
    log = lab.log
    lab.produce(b"aborted", 0, producer_id=3, transactional=True)
    for _ in range(3):
        log.roll()
        log.append_as_leader(sent(b"x"))
    lab.end_transaction(3, committed=False)
    found = log.read(0, max_bytes=1, isolation=COMMITTED)
    assert found == ([], 1, [(3, 0, 4, 5)])
    assert [batch.base_offset for batch in log.read(1, isolation=COMMITTED).batches] == [1, 2, 3, 4]
    assert [batch.base_offset for batch in log.read(0).batches] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_with_a_wrong_checksum_is_never_given(isolation: Isolation, codec: Codec) -> None:
    lab = LogOnMemory()
    for value in (b"good", b"flipped", b"good again"):
        lab.log.append_as_leader(sent(value * 10, BatchForm(codec=codec)))
    found = lab.log.view.find(1)
    assert found is not None
    path = f"{DIRECTORY}/{0:020}.log"
    with lab.files.open_writing(path) as file:
        last = found.position + found.size_bytes - 1
        file.write_at(last, [bytes([file.read_at(last, 1)[0] ^ 1])])
    first = lab.log.read(0, isolation=isolation)
    assert (values(first), first.next_offset) == ([b"good" * 10], 1)
    for _ in range(2):
        with pytest.raises(ChecksumError) as refusal:
            lab.log.read(1, isolation=isolation)
    assert (refusal.value.path, refusal.value.position, refusal.value.offset) == (path, found.position, 1)
    assert values(lab.log.read(2, isolation=isolation)) == [b"good again" * 10]


def test_a_largest_timestamp_is_that_of_a_record() -> None:
    log = LogOnMemory().log
    assert log.list_offset(-3) is None
    log.append_as_leader(sent([(50, b"a"), (70, b"b"), (70, b"c"), (60, b"d")]), leader_epoch=4)
    log.roll()
    log.append_as_leader(sent([(70, b"e")]), leader_epoch=4)
    assert log.list_offset(-3) == (1, 70, 4)


# Truncating


def test_truncation_takes_producers_and_epochs_along() -> None:
    lab = LogOnMemory()
    for number in range(6):
        lab.produce(b"x" * 900, number)
    lab.produce(b"open", 0, producer_id=8, transactional=True)
    lab.log.append_as_leader(sent(b"x"), leader_epoch=9)
    lab.log.truncate_to(3)
    assert lab.log.view.last_stable_offset == 3
    assert lab.log.epochs.latest_epoch == 1
    assert lab.log.view.bases == (0,)
    assert sorted(name for name in lab.contents() if not name.startswith("0" * 20)) == [
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
    ]
    assert lab.produce(b"y", 3) == 3
    lab.log.truncate_to(0)
    assert lab.values() == []
    assert lab.produce(b"z", 0) == 0


def test_a_truncation_below_the_first_segment_begins_anew() -> None:
    lab = LogOnMemory()
    lab.log.close()
    for name in lab.contents():
        lab.files.remove(f"{DIRECTORY}/{name}")
    log = lab.open(start_offset=100)
    lab.produce(b"x", 0)
    assert log.view.bases == (100,)
    log.truncate_to(40)
    assert (log.view.bases, log.view.start_offset, log.view.end_offset) == ((40,), 40, 40)
    assert lab.produce(b"x", 0) == 40


# Readers beside the writer


def test_a_view_never_changes() -> None:
    lab = LogOnMemory()
    for number in range(3):
        lab.log.append_as_leader(sent(b"%d" % number))
    view = lab.log.view
    for _ in range(30):
        lab.log.append_as_leader(sent(b"later" * 100))
    lab.run_tasks()
    assert all_values(view) == [b"0", b"1", b"2"]
    assert view.read(3) == ([], 3, [])
    assert view.list_offset(-3) == (0, NOW_MS, -1)
    lab.log.close()
    assert len(list(view.batches(0))) == 3


def test_a_reader_whose_segments_are_gone_goes_on_with_a_newer_view() -> None:
    lab = LogOnMemory()
    for number in range(3):
        lab.log.append_as_leader(sent(b"%d" % number))
        lab.log.roll()
    old = lab.log.view
    reading = old.batches(0)
    next(reading)
    lab.log.truncate_to(1)
    lab.log.append_as_leader(sent(b"new"))
    with pytest.raises(FileNotFoundError):
        old.read(2)
    assert values(lab.log.read(0)) == [b"0", b"new"]


def test_a_reading_is_begun_again_if_its_segment_goes_away_meanwhile() -> None:
    class Racing(MemoryFiles):
        """Does something before a segment is opened for reading, once it is told what."""

        act: Callable[[], None] | None = None

        def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
            if self.act is not None and str(path).endswith("2.log"):
                act, self.act = self.act, None
                act()
            return super().open_reading(path)

    files = Racing()
    lab = LogOnMemory(files=files)
    for number in range(3):
        lab.log.append_as_leader(sent(b"%d" % number))
        lab.log.roll()

    def race() -> None:
        lab.log.truncate_to(1)
        lab.log.append_as_leader(sent([(NOW_MS + 5, b"new")]))
        lab.log.append_as_leader(sent([(NOW_MS + 5, b"newest")]))

    files.act = race
    assert values(lab.log.read(2)) == [b"newest"]


def test_readers_see_whole_prefixes_while_a_writer_appends_and_rolls(tmp_path: Path) -> None:
    files, clock, rng = Files(), Clock(), random.Random(0)
    config = TopicConfig.resolve(SETTINGS)
    parts = open_sound_log(clock, files.directory(tmp_path), config, rng=rng, producer_expiration_ms=1000)
    log = Log(clock, files.directory(tmp_path), config, parts, rng=rng)
    failures: list[BaseException] = []
    is_done = threading.Event()

    def read() -> None:
        try:
            while True:
                is_last = is_done.is_set()
                end_offset = log.view.end_offset
                found = all_values(log.view)
                assert len(found) >= end_offset
                assert found == [b"%d" % number * 50 for number in range(len(found))]
                if is_last:
                    return
        except BaseException as error:
            failures.append(error)
            raise

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(150):
        log.append_as_leader(sent(b"%d" % number * 50))
    is_done.set()
    for reader in readers:
        reader.join()
    log.close()
    assert not failures
    assert len(log.view.bases) > 5
