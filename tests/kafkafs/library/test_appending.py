"""What is appended is what is read, and what is refused leaves nothing but what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import kafkafs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY_MS = 1_795_219_200_000  # 2026-11-21


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with kafkafs.open(tmp_path / "store", write=True) as store:
        store.create("orders", settings={"max.message.bytes": "2000"})
    return tmp_path / "store"


def test_rows_come_back_as_they_were_given(path: Path) -> None:
    headers = [("h", b"1"), ("h", None)]
    with kafkafs.open(path, write=True) as store:
        partition = store["orders"][0]
        offset = partition.append(None, key=b"", headers=headers, timestamp=datetime(2026, 11, 21, tzinfo=UTC))
        assert offset == 0
        assert partition.append_many([b"value", {"value": b"v", "timestamp": DAY_MS}, {}]) == range(1, 4)
        assert partition.append_many(list(partition.records())) == range(4, 8)
        assert partition.append_many([]) == range(8, 8)
        records = list(partition.records())
    first = records[0]
    assert (first.key, first.value, first.headers, first.timestamp) == (b"", None, tuple(headers), DAY_MS)
    assert [each[3:] for each in records[:4]] == [each[3:] for each in records[4:]]
    assert [each.value for each in records[:4]] == [None, b"value", b"v", None]


def test_a_refused_row_says_what_was_stored_before(path: Path) -> None:
    rows = [b"x" * 100] * 25_000
    with kafkafs.open(path, write=True) as store:
        partition = store["orders"][0]
        with pytest.raises(kafkafs.InvalidRecordError) as caught:
            partition.append_many([*rows, b"x" * 3000])
        stored = partition.end_offset
        assert 0 < stored < len(rows)
        assert caught.value.__notes__ == [f"{stored} records were stored before it (offsets 0 to {stored - 1})"]
        with pytest.raises(kafkafs.InvalidRecordError) as alone:
            partition.append(b"x" * 3000)
        assert not hasattr(alone.value, "__notes__")
        assert partition.end_offset == stored
        assert str(caught.value).startswith(f"row {len(rows)}: a record takes a batch of ")
        with pytest.raises(ValueError, match="a row has no 'valeu': it has value, key, headers, timestamp"):
            partition.append_many([{"valeu": b""}])  # type: ignore[typeddict-unknown-key]
        with pytest.raises(kafkafs.InvalidRecordError, match="must be bytes or None, not str"):
            partition.append("text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "kind", "reason"),
    [
        ({"value": 5}, kafkafs.InvalidRecordError, "the value must be bytes or None, not int"),
        (5, kafkafs.InvalidRecordError, "a row is bytes, None, a mapping or a Record, not int"),
        ({"timestamp": "now"}, TypeError, "a timestamp is an int of milliseconds or an aware datetime, not str"),
        ({"valeu": b""}, ValueError, "a row has no 'valeu': it has value, key, headers, timestamp"),
    ],
)
@pytest.mark.parametrize("number", [3, 10_000, 12_345])
def test_a_refused_row_is_named_by_its_number_among_all(
    path: Path, number: int, row: object, kind: type[Exception], reason: str
) -> None:
    with kafkafs.open(path, write=True) as store, pytest.raises(kind) as caught:
        store["orders"][0].append_many([*[b"x"] * number, row])  # type: ignore[list-item]
    assert str(caught.value) == f"row {number}: {reason}"


def test_a_forked_process_does_not_write_what_its_parent_writes(path: Path) -> None:
    program = """if True:
        import os, sys, kafkafs
        path = sys.argv[1]
        store = kafkafs.open(path, write=True)
        partition = store["orders"][0]
        partition.append(b"parent")
        if os.fork() == 0:
            for use in (lambda: partition.append(b"child"), lambda: partition.record(0), lambda: store.create("a")):
                try:
                    use()
                except kafkafs.StoreLockedError as error:
                    print(error, flush=True)
            try:
                kafkafs.open(path, write=True)
            except kafkafs.StoreLockedError as error:
                print(error, flush=True)
            store.close()
            os._exit(os.path.exists(path + "/.kafka_cleanshutdown"))
        status = os.wait()[1]
        print(status, partition.append(b"more"), [each.value for each in partition.records()], list(store))
        store.close()
    """
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True, timeout=60)
    *refused, opened, parent = done.stdout.splitlines()
    assert len(refused) == 3
    assert all(f"has it open for writing: open it here ({path})" in each for each in refused)
    assert "a broker or another kafkafs has the store open for writing" in opened
    assert parent == "0 1 [b'parent', b'more'] ['orders']"


def test_a_store_is_changed_only_as_it_was_opened(path: Path, datasets: Callable[[str], Path], tmp_path: Path) -> None:
    with kafkafs.open(path) as store:
        for change in (
            lambda: store["orders"][0].append(b""),
            store["orders"][0].flush,
            lambda: store.create("others"),
        ):
            with pytest.raises(kafkafs.ReadOnlyStoreError):
                change()
    with kafkafs.open(path, write=True):
        with pytest.raises(kafkafs.StoreLockedError, match="this process has it open for writing already"):
            kafkafs.open(path, write=True)
        program = f"import kafkafs; kafkafs.open({str(path)!r}, write=True)"
        refused = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
        assert "StoreLockedError" in refused.stderr
        with kafkafs.open(path) as beside:
            assert list(beside) == ["orders"]
    foreign = min((datasets("kafka-3.9") / "kafka-3.9").rglob("meta.properties")).parent
    with pytest.raises(kafkafs.ReadOnlyStoreError, match="open it with foreign=True"):
        kafkafs.open(foreign, write=True)
    with pytest.raises(kafkafs.NotAStoreError):
        kafkafs.open(tmp_path / "missing" / "store", write=True)


def test_topics_that_only_brokers_write_are_refused(path: Path) -> None:
    with kafkafs.open(path, write=True) as store:
        topic = store.create("__consumer_offsets")
        with pytest.raises(kafkafs.InvalidTopicError, match="only brokers change __consumer_offsets"):
            topic[0].append(b"")


def test_a_removed_directory_takes_nothing(path: Path) -> None:
    with kafkafs.open(path, write=True) as store:
        partition = store["orders"][0]
        partition.append(b"before")
        os.rename(path / "orders-0", path / "gone")  # noqa: PTH104
        with pytest.raises(kafkafs.UnknownPartitionError):
            partition.append(b"after")
        os.rename(path / "gone", path / "orders-0")  # noqa: PTH104


def test_a_replaced_log_directory_takes_nothing(path: Path, tmp_path: Path) -> None:
    """The store that was locked is elsewhere, and no reader of the path would see the record."""
    with kafkafs.open(path, write=True) as store:
        store["orders"][0].append(b"before")
        partition = store["orders"][0]
        shutil.copytree(path.rename(tmp_path / "away"), path)
        with pytest.raises(kafkafs.UnknownPartitionError):
            partition.append(b"after")
    with kafkafs.open(tmp_path / "away") as store:
        assert [record.value for record in store["orders"][0].records()][-1] == b"before"


def test_what_a_crash_left_is_recovered_by_the_next_who_writes(path: Path) -> None:
    with kafkafs.open(path, write=True) as store:
        store["orders"][0].append(b"whole")
    log = path / "orders-0" / "00000000000000000000.log"
    whole = log.read_bytes()
    log.write_bytes(whole + whole[: len(whole) // 2])
    (path / ".kafka_cleanshutdown").unlink()
    with kafkafs.open(path, write=True):
        pass
    assert log.read_bytes() == whole
    assert (path / ".kafka_cleanshutdown").exists()
