"""A real Kafka prints and adopts what the reference's golden bytes describe; brokers start, stop, die and come back."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import crc32c
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

TIME = 1_700_000_000_000
GOLDEN = bytes.fromhex(
    "000000000000000000000047000000000200be233d0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff"
    "0000000210000000026b02760018000a02046b32010202680278"
)
"""Offsets 0 and 1: (k, v), and (k2, null) with the header h=x, 5 ms later."""
COMMIT = bytes.fromhex(
    "000000000000000700000042000000000242d4761e0030000000000000018bcfe568000000018bcfe5680000000000000000090002ffffffff"
    "000000012000000008000000010c00000000000300"
)
"""A commit by producer 9 at offset 7."""
GOLDEN_RECORDS = [
    (0, TIME, "CreateTime", b"k", b"v", (), 0),
    (1, TIME + 5, "CreateTime", b"k2", None, (("h", b"x"),), 0),
]
DUMPED = """\
Log starting offset: 0
baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 \
partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 \
CreateTime: 1700000000005 size: 83 magic: 2 compresscodec: none crc: 12460861 isvalid: true
| offset: 0 CreateTime: 1700000000000 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [] key: k payload: v
| offset: 1 CreateTime: 1700000000005 keySize: 2 valueSize: -1 sequence: -1 headerKeys: [h] key: k2
baseOffset: 7 lastOffset: 7 count: 1 baseSequence: -1 lastSequence: -1 producerId: 9 producerEpoch: 2 \
partitionLeaderEpoch: 0 isTransactional: true isControl: true deleteHorizonMs: OptionalLong.empty position: 83 \
CreateTime: 1700000000000 size: 78 magic: 2 compresscodec: none crc: 1121220126 isvalid: true
| offset: 7 CreateTime: 1700000000000 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT \
coordinatorEpoch: 3
"""


def transactional(base_offset: int) -> bytes:
    """The golden batch as producer 9 sends it in a transaction."""
    batch = bytearray(GOLDEN)
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">h", batch, 21, 0x10)
    struct.pack_into(">qhi", batch, 43, 9, 2, 0)
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    return bytes(batch)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def partition(tmp_path: Path) -> Callable[..., Path]:
    """Make a partition directory of one segment."""

    def make(name: str, *batches: bytes) -> Path:
        directory = tmp_path / "store" / name
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(b"".join(batches))
        (directory / f"{0:020}.index").touch()
        return directory

    return make


@pytest.mark.parametrize("version", ["3.9", "4"])
def test_dump_prints_the_golden_batches(real_kafka, partition, version):
    log = partition("golden-0", GOLDEN, COMMIT) / f"{0:020}.log"
    assert real_kafka.dump(log, version=version) == f"Dumping {log}\n{DUMPED}"
    cut_short = real_kafka.dump(log, options=["--max-bytes", "83"], version=version)
    assert cut_short == f"Dumping {log}\n{DUMPED.partition('baseOffset: 7')[0]}"


@pytest.mark.parametrize("version", ["3.9", "4"])
def test_judge_returns_every_record_in_both_isolation_levels(real_kafka, partition, version):
    still_open = partition("golden-0", GOLDEN, transactional(2))
    committed = partition("golden-1", GOLDEN, transactional(2), COMMIT)
    before = {path: (path.read_bytes(), path.stat()) for path in still_open.parent.glob("*/*")}
    judged = real_kafka.judge_all([still_open, committed], version=version)
    assert {path: (path.read_bytes(), path.stat()) for path in still_open.parent.glob("*/*")} == before

    all_records = GOLDEN_RECORDS + [(offset + 2, *rest) for offset, *rest in GOLDEN_RECORDS]
    assert list(judged) == ["golden-0", "golden-1"]
    first, second = judged.values()
    assert (first.log_start_offset, first.end_offset, first.last_stable_offset) == (0, 4, 2)
    assert (first.read_uncommitted, first.read_committed) == (all_records, GOLDEN_RECORDS)
    assert (second.log_start_offset, second.end_offset, second.last_stable_offset) == (0, 8, 8)
    assert (second.read_uncommitted, second.read_committed) == (all_records, all_records)


def test_judge_tells_what_was_recovered(real_kafka, partition):
    directory = partition("golden-3", GOLDEN, transactional(2)[:-1])
    (directory.parent / "log-start-offset-checkpoint").write_text("0\n2\nother 3 7\ngolden 3 1\n")
    judged = real_kafka.judge(directory, settings={"cleanup.policy": "compact", "segment.bytes": "1048576"})
    assert (judged.log_start_offset, judged.end_offset, judged.last_stable_offset) == (1, 2, 2)
    assert judged.read_uncommitted == judged.read_committed == GOLDEN_RECORDS[1:]
    assert any(line.startswith("WARN") and "truncating to offset 2" in line for line in judged.broker_log)


def test_judge_gives_the_reason_when_a_broker_refuses(real_kafka, partition):
    directory = partition("golden-0", GOLDEN)
    with pytest.raises(real_kafka.Error, match=r"Unknown topic config name: no\.such\.setting"):
        real_kafka.judge(directory, settings={"no.such.setting": "1"})
    (directory / "leader-epoch-checkpoint").write_text("what?\n")
    with pytest.raises(real_kafka.Error, match="leader-epoch-checkpoint"):
        real_kafka.judge(directory)
    with pytest.raises(real_kafka.Error, match="not a partition directory"):
        real_kafka.judge(directory.parent)


@pytest.mark.parametrize("version", ["3.9", "4"])
def test_a_tool_that_fails_leaves_the_next_alone(real_kafka, version):
    """They share a process, in which each has its own exit status, input and output."""
    for _ in range(2):
        with pytest.raises(real_kafka.Error, match="Create, delete, describe, or change a topic"):
            real_kafka.tool("TopicCommand", version=version)
        with pytest.raises(real_kafka.Error, match=r"ClassNotFoundException: no\.such\.Tool"):
            real_kafka.tool("no.such.Tool", version=version)
        assert real_kafka.tool("TopicCommand", "--version", version=version).startswith(f"{version}.")
        assert real_kafka.tool("StorageTool", "random-uuid", version=version).count("\n") == 1


def test_a_broker_stops_cleanly(real_kafka, tmp_path):
    with real_kafka.broker(tmp_path, {"log.segment.bytes": "65536"}) as broker:
        at = ("--bootstrap-server", broker.bootstrap, "--topic", "orders")
        real_kafka.tool("TopicCommand", *at, "--create")
        real_kafka.tool("ConsoleProducer", *at, stdin="first\nsecond\n")
        with pytest.raises(real_kafka.Error, match=r"runs on .* already"), real_kafka.broker(tmp_path):
            pass
        assert is_alive(broker.pid)
        broker.stop()
        assert not is_alive(broker.pid)
    assert (broker.log_dirs[0] / ".kafka_cleanshutdown").exists()
    judged = real_kafka.judge(broker.log_dirs[0] / "orders-0", clean=True)
    assert [record.value for record in judged.read_committed] == [b"first", b"second"]
    assert judged.broker_log == []


def test_a_broker_dies_with_its_lifeline_and_comes_back(real_kafka, tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as lifeline:
        try:
            said = real_kafka.run("start", "--version", "4", "--while", lifeline.pid, tmp_path)
            watched = os.pidfd_open(int(said.split("pid=")[1].split()[0]))
        finally:
            lifeline.kill()
    try:
        assert select.select([watched], [], [], 30)[0], "the broker lives on"
        with real_kafka.broker(tmp_path, version="4") as broker:
            broker.kill()
            assert not is_alive(broker.pid)
    finally:
        os.close(watched)
        real_kafka.run("kill", tmp_path)
