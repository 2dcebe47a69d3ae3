"""A partition checked without its log being read, but for what follows the end that a reader found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.files import Files
from storage.record import BatchForm, batches_of_rows
from storage.store import Mode, Store
from storage.verify import FindingKind, LogEnd, PartitionExpectation
from storage.verify.partition import outline_partition

if TYPE_CHECKING:
    from pathlib import Path

    from storage.verify import Finding

TIME_MS = 1_700_000_000_000
NAME = f"{0:020d}.log"


def append(path: Path, count: int) -> LogEnd:
    """Append batches of one record; return where they end."""
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
        log = store.log_to_write("orders", 0)
        for _ in range(count):
            (batch,) = batches_of_rows([(TIME_MS, b"k", b"v" * 50, ())], base_offset=None, form=BatchForm())
            log.append_as_leader(batch, leader_epoch=0)
        return LogEnd(log.view.segments[-1].base_offset, log.view.end_position, log.view.end_offset)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as made:
        made.topics.create("orders", 1)
    return tmp_path / "store"


def outlined(store: Path, end: LogEnd | None, *, is_clean: bool = True, **reached: int) -> list[Finding]:
    expected = PartitionExpectation(directory=Files().directory(store / "orders-0"), is_clean=is_clean, reached=reached)
    return list(outline_partition(expected, end).findings)


def test_batches_appended_since_are_no_damage_and_what_follows_them_is(store: Path) -> None:
    end = append(store, 3)
    assert outlined(store, end) == []
    later = append(store, 2)
    assert outlined(store, end) == []
    with (store / "orders-0" / NAME).open("ab") as log:
        log.write(b"no batch")
    (found,) = outlined(store, end)
    assert (found.kind, found.position, found.offset) == (FindingKind.TORN_TAIL, later.position, 5)
    assert outlined(store, None) == []


def test_zeros_are_those_of_a_file_allocated_in_advance_only_while_it_is_open(store: Path) -> None:
    end = append(store, 3)
    for name, zeros in ((NAME, 4096), (NAME.replace(".log", ".index"), 80)):
        with (store / "orders-0" / name).open("ab") as file:
            file.write(bytes(zeros))
    assert outlined(store, end, is_clean=False) == []
    assert [each.kind for each in outlined(store, end)] == [FindingKind.ZERO_TAIL]


def test_an_end_of_another_segment_or_beyond_the_file_says_nothing(store: Path) -> None:
    end = append(store, 3)
    assert outlined(store, end._replace(base_offset=7), reached=9) == []
    assert outlined(store, end._replace(position=10**6), reached=9) == []
    assert [each.kind for each in outlined(store, end, reached=9)] == [FindingKind.LOST_TAIL]


def test_a_log_of_a_broker_that_made_no_indexes_lacks_none(store: Path) -> None:
    end = append(store, 3)
    for suffix in (".index", ".timeindex"):
        (store / "orders-0" / NAME.replace(".log", suffix)).unlink()
    assert [each.kind for each in outlined(store, end)] == [FindingKind.MISSING_INDEX] * 2
    data = bytearray((store / "orders-0" / NAME).read_bytes())
    data[16] = 1
    (store / "orders-0" / NAME).write_bytes(data)
    assert outlined(store, None) == []


def test_a_partition_that_is_gone_has_no_findings(store: Path, tmp_path: Path) -> None:
    end = append(store, 1)
    assert outlined(tmp_path / "nothing", end) == []
