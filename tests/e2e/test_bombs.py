"""Batches that are small on disk and large in memory: a mount stays within its budget, and others are answered."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hostile.bombs import varint

from storage.record.compression import Codec, compress
from storage.record.kernel.records_data import seal

if TYPE_CHECKING:
    from collections.abc import Callable

    from mounts import Mounted

MIB = 1024 * 1024
BUDGET_BYTES = 64 * MIB
SHARE_BYTES = BUDGET_BYTES // 4
BESIDES_BYTES = 200 * MIB
VALUE_BYTES = 15_000_000
SOUND = "sound"


def batch_of(records: bytes, count: int) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return seal(
        compress(Codec.ZSTD, records),
        base_offset=0,
        leader_epoch=0,
        attributes=Codec.ZSTD,
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def one_record(value_size: bytes, value: bytes, headers: int) -> bytes:
    body = b"\0\0\0" + varint(-1) + value_size + value + varint(headers) + b"\0\1" * headers
    return batch_of(varint(len(body)) + body, 1)


def value(size_bytes: int) -> bytes:
    return one_record(varint(size_bytes), bytes(size_bytes), 0)


def headers(count: int) -> bytes:
    return one_record(varint(-1), b"", count)


def records(count: int) -> bytes:
    """Many records without key and value, all at the first offset."""
    record = b"\0\0\0" + varint(-1) + varint(-1) + b"\0"
    return batch_of((varint(len(record)) + record) * count, count)


BOMBS = {"value": value(40_000_000), "headers": headers(1_500_000), "records": records(400_000)}
LOOKED_UP = {"value": errno.EFBIG, "headers": errno.EFBIG, "records": 0}  # of many records one is made


class Memory:
    """The memory of a process: `peak_bytes` is the most since this was made."""

    def __init__(self, process: int) -> None:
        self._process = Path("/proc", str(process))
        (self._process / "clear_refs").write_text("5")

    @property
    def peak_bytes(self) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.fixture
def mounted(tmp_path: Path, store_mounts: Callable[..., Mounted]) -> Mounted:
    """A mount of a store with a bomb in each partition of a topic, and a sound topic, with the smallest budget."""
    store = tmp_path / "store"
    for name, batch in (*BOMBS.items(), ("fits", value(VALUE_BYTES))):
        partition = store / f"{name}-0"
        partition.mkdir(parents=True)
        (partition / f"{0:020}.log").write_bytes(batch)
    found = store_mounts(store, "-o", f"rw,memory={BUDGET_BYTES}")
    (found.path / SOUND).mkdir()
    (found.path / SOUND / "0" / "append").write_bytes(b"hello\n")
    return found


def attempt(path: Path) -> int:
    """Read a file to its end; returns the number of the error, 0 if there is none."""
    try:
        with path.open("rb", buffering=0) as file:
            while file.read(MIB):
                pass
    except OSError as error:
        return error.errno or 0
    return 0


@pytest.mark.parametrize("name", BOMBS)
def test_no_view_takes_more_than_the_budget(mounted: Mounted, name: str) -> None:
    memory = Memory(mounted.process.pid)
    partition = mounted.path / name / "0"
    found: dict[str, int] = {}
    for view in (
        "offset/0",
        "offset/0.json",
        "offset/0.headers",
        "offset/all",
        "offset/all.headers",
        "values",
        "keys",
        "records.jsonl",
        "info",
        f"segments/{0:020}.log",
        f"segments/{0:020}.log.txt",
    ):
        found[view] = attempt(partition / view)
        assert (mounted.path / SOUND / "0" / "values").read_bytes() == b"hello\n"
    assert set(found.values()) <= {0, errno.EFBIG}, found
    assert (found["offset/0.json"], found[f"segments/{0:020}.log"]) == (LOOKED_UP[name], 0)
    assert {path.name for path in (partition / "offset").iterdir()} <= {"0", "earliest", "latest"}
    assert memory.peak_bytes < BUDGET_BYTES + BESIDES_BYTES
    assert "the batch" in mounted.said() or "headers" in mounted.said()
    assert "bug" not in mounted.said()


def test_what_fits_is_read_by_many_at_once(mounted: Mounted) -> None:
    memory = Memory(mounted.process.pid)
    read = mounted.run("for n in $(seq 12); do cat fits/0/offset/0 | wc -c & done; wait")
    assert read.stdout.split() == [str(VALUE_BYTES)] * 12, read.stderr
    assert memory.peak_bytes < BUDGET_BYTES + BESIDES_BYTES


def test_an_open_file_gives_its_memory_to_others_and_goes_on(mounted: Mounted) -> None:
    path = mounted.path / "fits" / "0" / "offset" / "0"
    files = [path.open("rb", buffering=0) for _ in range(8)]
    try:
        memory = Memory(mounted.process.pid)
        for at in (0, VALUE_BYTES // 2):
            for file in files:
                file.seek(at)
                assert file.read(MIB) == bytes(MIB)
        assert memory.peak_bytes < BUDGET_BYTES + BESIDES_BYTES
    finally:
        for file in files:
            file.close()


@pytest.mark.parametrize("name", BOMBS)
def test_none_is_appended(mounted: Mounted, name: str) -> None:
    memory = Memory(mounted.process.pid)
    path = mounted.path / SOUND / "0" / "append.batch"
    with pytest.raises(OSError, match="File too large") as refused, path.open("wb", buffering=0) as file:
        file.write(BOMBS[name])
    assert refused.value.errno == errno.EFBIG
    assert (mounted.path / SOUND / "0" / "values").read_bytes() == b"hello\n"
    assert memory.peak_bytes < BUDGET_BYTES + BESIDES_BYTES
    assert "EFBIG" in mounted.said()


def test_what_fits_is_appended(mounted: Mounted) -> None:
    (mounted.path / SOUND / "0" / "append.batch").write_bytes(value(VALUE_BYTES))
    assert (mounted.path / SOUND / "0" / "offset" / "1").read_bytes() == bytes(VALUE_BYTES)
