"""What `kafkafs recover` says of segments that it did not read, and of checkpoints that it cannot read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.failures import EXIT_DONE, EXIT_FOUND
from storage.clock import Clock
from storage.files import Files
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.record import batches_of_rows
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

MARKER = ".kafka_cleanshutdown"
HINT = (
    "  5 segments were not read, because the recovery points of the logs say that they are on disk; "
    "--ignore-clean-shutdown reads all of them"
)


def recover(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["recover", *map(str, arguments)])
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def crashed_store(tmp_path: Path) -> Path:
    """Make a store whose log has six segments, all but the last below the recovery point, and kill it."""
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1, {"segment.bytes": "1000", "segment.index.bytes": "1200"})
        for number in range(6):
            (batch,) = batches_of_rows([(Clock().now_ms(), b"%d" % number, bytes(900), ())], base_offset=None)
            store.log("orders", 0).append_as_leader(batch, leader_epoch=0)
    (path / MARKER).unlink()
    assert len(list(path.glob("orders-0/*.log"))) == 6
    return path


def damage(store: Path, base_offset: int) -> None:
    """Change a byte of a batch."""
    log = store / "orders-0" / f"{base_offset:020}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


def test_what_was_believed_because_of_a_recovery_point_is_said(crashed_store: Path) -> None:
    damage(crashed_store, 1)
    planned, done = recover(crashed_store), recover(crashed_store, "--apply")
    for result in (planned, done):
        assert result.exit_code == EXIT_DONE
        assert HINT in result.stdout.splitlines()
        marker = f"  added    {MARKER}: every log in the directory is recovered from its recovery point on"
        assert marker in result.stdout.splitlines()
    assert CliRunner().invoke(main, ["verify", str(crashed_store)]).exit_code == EXIT_FOUND
    assert "not read" not in recover(crashed_store, "--ignore-clean-shutdown", "--apply").stdout
    assert CliRunner().invoke(main, ["verify", str(crashed_store)]).exit_code == EXIT_DONE


def test_what_was_read_from_the_first_segment_on_is_recovered_without_reserve(crashed_store: Path) -> None:
    for options in ((), ("--apply",)):
        result = recover(crashed_store, "--ignore-clean-shutdown", *options)
        assert f"  added    {MARKER}: every log in the directory is recovered" in result.stdout.splitlines()
        assert "not read" not in result.stdout


def test_how_many_segments_were_believed_is_in_the_objects(crashed_store: Path) -> None:
    partition, log_dir = map(json.loads, recover(crashed_store, "--jsonl").stdout.splitlines())
    assert (partition["believedSegments"], partition["scannedSegments"]) == (5, 1)
    assert log_dir["believedSegments"] == 5


CONTENTS = {
    "garbage": b"\x00\xff\xfe garbage",
    "NUL": bytes(40),
    "count": b"0\n7\norders 0 1\n",
    "version": b"9\n0\n",
}
LOST = {
    OffsetCheckpoint.RECOVERY_POINT: "the recovery points in it are lost: it is written from the logs",
    OffsetCheckpoint.LOG_START: "the log starts in it are lost: each log begins with its first segment",
    OffsetCheckpoint.HIGH_WATERMARK: "the high watermarks in it are lost",
    OffsetCheckpoint.FIRST_DIRTY: "how far logs are compacted is lost: each counts as one that may lack offsets",
}


@pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("checkpoint", OffsetCheckpoint)
def test_a_damaged_checkpoint_is_written_again(
    crashed_store: Path, checkpoint: OffsetCheckpoint, content: bytes, *, closed: bool
) -> None:
    if closed:
        (crashed_store / MARKER).write_text('{"version":0,"brokerEpoch":-1}')
    (crashed_store / checkpoint.value).write_bytes(content)
    planned, done = recover(crashed_store), recover(crashed_store, "--apply")
    assert (planned.exit_code, done.exit_code) == (EXIT_DONE, EXIT_DONE)
    for result in (planned, done):
        (step,) = (line for line in result.stdout.splitlines() if line.startswith(f"  rebuilt  {checkpoint.value}: "))
        assert step.endswith(f"; {LOST[checkpoint]}")
    assert ", 1 damaged checkpoint to be repaired" in planned.stdout.splitlines()[-2]
    assert done.stdout.splitlines()[-1].endswith(", 1 damaged checkpoint repaired")
    expected = {
        OffsetCheckpoint.RECOVERY_POINT: {("orders", 0): 6},
        OffsetCheckpoint.LOG_START: {},
        OffsetCheckpoint.HIGH_WATERMARK: {("orders", 0): 6},
        OffsetCheckpoint.FIRST_DIRTY: {("orders", 0): 0},
    }
    assert read_offsets(Files().directory(crashed_store), checkpoint) == expected[checkpoint]
    assert CliRunner().invoke(main, ["verify", str(crashed_store)]).exit_code == EXIT_DONE
    assert "damaged checkpoint" not in recover(crashed_store, "--apply").stdout


def test_a_hole_is_kept_where_it_is_lost_what_was_compacted(crashed_store: Path) -> None:
    """Compaction may have made it, before it was taken out of the topic's settings."""
    for name in crashed_store.glob(f"orders-0/{2:020}.*"):
        name.unlink()
    (crashed_store / OffsetCheckpoint.FIRST_DIRTY.value).write_bytes(b"garbage")
    (crashed_store / OffsetCheckpoint.RECOVERY_POINT.value).unlink()
    assert "dropped" not in recover(crashed_store, "--apply").stdout
    assert "dropped" not in recover(crashed_store, "--apply", "--ignore-clean-shutdown").stdout
    assert (crashed_store / "orders-0" / f"{5:020}.log").exists()
