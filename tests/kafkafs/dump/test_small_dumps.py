"""Dumps of transaction indexes, producer snapshots and checkpoints."""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from storage.log.producers.snapshot import encode_snapshot
from storage.log.producers.state import CachedBatch, ProducerState
from storage.testing.mutations import mutate

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

LAST_SEQUENCE = 2**31 - 1
ABORTED = struct.pack(">hqqqq", 0, 7, 100, 120, 90)
ABORTED_LINE = "version: 0 producerId: 7 firstOffset: 100 lastOffset: 120 lastStableOffset: 90"
PRODUCERS = [
    ProducerState(7, 1, 2, 1234, 55, (CachedBatch(3, 100, 9, 1230),)),
    ProducerState(8, 0, -1, 99),
]


def dump(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["dump", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def lines(result: Result) -> list[str]:
    """What follows on the line that names the file."""
    return result.stdout.splitlines()[1:]


def objects(path: Path) -> list[dict[str, object]]:
    file, *others = map(json.loads, dump("--jsonl", path).stdout.splitlines())
    assert file == {"type": "file", "path": str(path)}
    assert json.loads(dump("--json", path).stdout) == [file, *others]
    return others


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_transaction_index(tmp_path: Path) -> None:
    path = write(tmp_path / "00000000000000000100.txnindex", ABORTED)
    assert (lines(dump(path)), dump(path).exit_code) == ([ABORTED_LINE], 0)
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    assert objects(path) == [{"type": "abortedTransaction", **dict(zip(names, (0, 7, 100, 120, 90), strict=True))}]


def test_a_transaction_of_an_unknown_version_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "00000000000000000100.txnindex.deleted", ABORTED + b"\1" + ABORTED[1:] + ABORTED + b"12345")
    result = dump(path)
    damage = f"Damaged: the entry has version 256, and only 0 is known ({path}, position 34)"
    assert (lines(result), result.exit_code) == ([ABORTED_LINE, damage, ABORTED_LINE], 1)
    assert result.stderr == f"Found 5 bytes after the last entry of {path}\n"


def test_a_producer_snapshot(tmp_path: Path) -> None:
    path = write(tmp_path / "00000000000000000101.snapshot", encode_snapshot(PRODUCERS))
    assert dump(path).exit_code == 0
    first_line, second_line = lines(dump(path))
    assert first_line == (
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: 2 currentTxnFirstOffset: OptionalLong[55] lastTimestamp: 1234"
        f" firstSequence: {LAST_SEQUENCE - 5} lastSequence: 3 lastOffset: 100 offsetDelta: 9 timestamp: 1234"
    )
    # The real tool ends a line with a space where there is no batch to follow.
    assert second_line == (
        "producerId: 8 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty"
        " lastTimestamp: 99 "
    )
    first, second = objects(path)
    assert (first["type"], first["currentTxnFirstOffset"], first["lastOffset"]) == ("producer", 55, 100)
    assert second == {
        "type": "producer",
        "producerId": 8,
        "producerEpoch": 0,
        "coordinatorEpoch": -1,
        "currentTxnFirstOffset": None,
        "lastTimestamp": 99,
    }


def test_a_snapshot_that_is_not_whole_is_one_line(tmp_path: Path) -> None:
    data = encode_snapshot(PRODUCERS)
    for number, damaged in enumerate((data[:-1], data[:5], b"", data[:20] + b"\xff" + data[21:], b"\0\2" + data[2:])):
        path = write(tmp_path / f"{number:020d}.snapshot", damaged)
        result = dump(path)
        (line,) = lines(result)
        assert line.startswith("Damaged: the snapshot")
        assert line.endswith(f" ({path})")
        assert (result.stderr, result.exit_code) == ("", 1)
    path = write(tmp_path / f"{9:020d}.snapshot", data)
    expected = f"Damaged: the snapshot has {len(data)} bytes, above the limit of {len(data) - 1} ({path})"
    assert lines(dump("--limit-bytes", len(data) - 1, path)) == [expected]


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication", "cleaner"])
def test_the_offsets_of_partitions(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / f"{name}-offset-checkpoint", b"0\n2\nt-none 0 1234\na.b_c 12 0\n")
    assert (lines(dump(path)), dump(path).exit_code) == (["t-none-0 1234", "a.b_c-12 0"], 0)
    first, _ = objects(path)
    assert first == {"type": "partitionOffset", "topic": "t-none", "partition": 0, "offset": 1234}


def test_leader_epochs(tmp_path: Path) -> None:
    path = write(tmp_path / "leader-epoch-checkpoint", b"0\n2\n0 0\n3 1200\n")
    assert (lines(dump(path)), dump(path).exit_code) == (["0 0", "3 1200"], 0)
    assert objects(path)[1] == {"type": "leaderEpoch", "epoch": 3, "startOffset": 1200}


@pytest.mark.parametrize(
    ("data", "shown", "reason"),
    [
        (b"", [], None),
        (b"0\n0\n", [], None),
        (b"0\n2\nt 0 5\n", ["t-0 5"], "the checkpoint has 1 entries and declares 2"),
        (b"0\n3\nt 0 5\nt 1\nt 2 7\n", ["t-0 5"], "the checkpoint has a malformed line 't 1'"),
        (b"0\n1\nt x 5\n", [], "the checkpoint has a malformed line 't x 5'"),
        (b"7\n1\nt 0 5\n", [], "the checkpoint's version is 7, known is 0"),
        (bytes(20), [], "the checkpoint holds nothing but NUL bytes"),
        (b"0\n1\n\xff 0 5\n", [], "the checkpoint is not UTF-8"),
    ],
)
def test_a_malformed_checkpoint_is_shown_up_to_what_is_wrong(
    tmp_path: Path, data: bytes, shown: list[str], reason: str | None
) -> None:
    path = write(tmp_path / "replication-offset-checkpoint", data)
    result = dump(path)
    assert lines(result) == shown + ([f"Damaged: {reason} ({path})"] if reason else [])
    assert (result.stderr, result.exit_code) == ("", 1 if reason else 0)


@pytest.mark.parametrize("seed", range(50))
def test_no_damage_ends_in_a_traceback(tmp_path: Path, seed: int) -> None:
    sound = {
        "00000000000000000100.txnindex": 3 * ABORTED,
        "00000000000000000100.snapshot": encode_snapshot(PRODUCERS),
        "cleaner-offset-checkpoint": b"0\n2\nt-none 0 1234\na.b_c 12 0\n",
        "leader-epoch-checkpoint": b"0\n2\n0 0\n3 1200\n",
    }
    rng = random.Random(seed)
    for name, data in sound.items():
        path = write(tmp_path / name, mutate(rng, data))
        for option in ("--no-data", "--json"):
            assert dump(option, path).exit_code in (0, 1)


def test_a_checkpoint_above_the_limit_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "leader-epoch-checkpoint", b"0\n1\n0 0\n")
    expected = f"Damaged: the checkpoint has 8 bytes, above the limit of 7 ({path})"
    assert lines(dump("--limit-bytes", 7, path)) == [expected]
