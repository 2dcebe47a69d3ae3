"""`explain` leads to the batch: its commands print that batch and nothing else, of logs that real brokers wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from struct import unpack_from
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from crc32c import crc32c

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.log import Log
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HEADER_BYTES = 61
CRC_AT = 17
ATTRIBUTES_AT = 21


def explained(*arguments: str) -> dict[str, Any]:
    printed = CliRunner().invoke(main, ["explain", "--json", *arguments], prog_name="kafkafs")
    assert printed.exit_code == 0, printed.stderr
    (row,) = json.loads(printed.stdout)
    assert isinstance(row, dict)
    return row


def real_batches(log: Path) -> Iterator[tuple[int, list[str]]]:
    """The last offset and the lines of each batch, as the real tool printed them."""
    text = log.parents[2].with_suffix(".9.dump") / log.parents[1].name / log.parent.name / f"{log.name}.txt"
    lines: list[str] = []
    for line in text.read_text(errors="surrogateescape").splitlines():
        if line.startswith("baseOffset: ") and lines:
            yield int(lines[0].split("lastOffset: ")[1].split()[0]), lines
            lines = []
        if lines or line.startswith("baseOffset: "):
            lines.append(line)
    if lines:
        yield int(lines[0].split("lastOffset: ")[1].split()[0]), lines


@pytest.mark.golden
def test_the_commands_print_the_batch_as_the_real_tool_did(datasets: Callable[[str], Path]) -> None:
    store = datasets("kafka-3.9") / "kafka-3.9" / "d1"
    logs = sorted(log for log in store.glob("t-*-0/*.log") if log.stat().st_size)
    assert len(logs) > 20
    for log in logs[::6]:
        batches = list(real_batches(log))
        offset, lines = batches[len(batches) // 2]
        row = explained(str(store), f"{log.parent.name[:-2]}/0/offset/{offset}")
        assert row["path"] == str(log)
        data = subprocess.run(["/bin/sh", "-c", row["dd"]], capture_output=True, check=True).stdout
        assert data == log.read_bytes()[row["position"] :][: row["bytes"]]
        assert len(data) == unpack_from(">i", data, 8)[0] + 12
        if row["magic"] == 2:
            assert crc32c(data[ATTRIBUTES_AT:]) == unpack_from(">I", data, CRC_AT)[0] == row["crc"]
        real = "kafka-dump-log.sh --deep-iteration --print-data-log --files"
        assert row["dump"].startswith(real)
        command = row["dump"].replace(real, f"{sys.executable} -P -m kafkafs dump")  # which prints what it prints
        dumped = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout
        assert dumped.splitlines() == lines


@pytest.mark.golden
def test_what_a_transaction_and_its_leader_did(datasets: Callable[[str], Path]) -> None:
    store = ",".join(str(datasets("kafka-3.9") / "kafka-3.9" / name) for name in ("d1", "d2"))
    row = explained(store, "t-txn/0/offset/40")
    assert (row["transaction"], row["producerId"], row["sequence"]) == ("committed", 2, 18)
    assert (row["leaderEpoch"], row["leaderEpochOffset"]) == (0, 0)
    assert row["previous"]["lastOffset"] + 1 == row["baseOffset"]
    assert row["next"]["position"] == row["position"] + row["bytes"]
    # Two producers take turns: the marker after the batch is the other's.
    assert explained(store, "t-txn/0/offset/22")["transaction"] == "aborted"
    controls = [explained(store, f"t-txn/0/offset/{offset}")["control"] for offset in (42, 43)]
    assert controls == ["endTxnMarker: ABORT coordinatorEpoch: 0", "endTxnMarker: COMMIT coordinatorEpoch: 0"]


def test_a_damaged_batch_is_explained(damaged_store: Path) -> None:
    row = explained(str(damaged_store), "orders/0/offset/10")
    assert row["damage"].startswith("the batch's bytes have CRC")
    assert (row["baseOffset"], row["timestamp"], row["records"]) == (10, None, 1)


def test_the_rules_that_will_take_it_and_when(filled_store: Path) -> None:
    settings = ["topics", "config", str(filled_store), "orders", "retention.ms=60000"]
    assert CliRunner().invoke(main, settings, prog_name="kafkafs").exit_code == 0
    row = explained(str(filled_store), "orders/0/offset/latest")
    assert (row["offset"], row["retentionTimestamp"]) == (19, row["timestamp"] + 60_000)
    assert "more than retention.ms=60000" in row["retention"]
    assert "cleanup.policy does not say so" in row["compaction"]


def test_what_retention_never_takes_has_no_time_at_which_it_goes(filled_store: Path) -> None:
    settings = ["topics", "config", str(filled_store), "orders", "retention.ms=9223372036854775807"]
    assert CliRunner().invoke(main, settings, prog_name="kafkafs").exit_code == 0
    assert explained(str(filled_store), "orders/0/offset/3")["retentionTimestamp"] is None
    done = CliRunner().invoke(main, ["explain", str(filled_store), "orders/0/offset/3"], prog_name="kafkafs")
    assert (done.exit_code, "lets the segment go" in done.stdout) == (0, False)


def test_an_offset_below_the_log_start_is_told_from_one_that_was_compacted_away(filled_store: Path) -> None:
    with Store.open([filled_store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
        log = store.log("orders", 0)
        assert isinstance(log, Log)
        log.advance_start(15)
    row = explained(str(filled_store), "orders/0/offset/3")
    assert (row["offset"], row["logStartOffset"], row["logEndOffset"]) == (3, 15, 20)
    done = CliRunner().invoke(main, ["explain", str(filled_store), "orders/0/offset/3"], prog_name="kafkafs")
    said = done.stdout.splitlines()[0]
    assert "offset 3: the log starts at offset 15, as after retention or kafka-delete-records; the next batch" in said


@pytest.mark.golden
@pytest.mark.parametrize(("topic", "start"), [("t-delrec", 750), ("t-retain", 900)])
def test_what_real_brokers_deleted_is_not_said_to_be_compacted_away(
    datasets: Callable[[str], Path], topic: str, start: int
) -> None:
    store = ",".join(str(datasets("kafka-3.9") / "kafka-3.9" / name) for name in ("d1", "d2"))
    done = CliRunner().invoke(main, ["explain", store, f"{topic}/0/offset/100"], prog_name="kafkafs")
    assert f"offset 100: the log starts at offset {start}, as after retention" in done.stdout
    assert "as after a compaction" not in done.stdout
    done = CliRunner().invoke(main, ["cat", store, f"{topic}/0/offset/100"], prog_name="kafkafs")
    assert done.stderr.endswith(f"offset/100: there is no such record to be seen: the log starts at offset {start}\n")


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("orders/0/offset/20", 1, "the log has no batch at offset 20 or after it"),
        ("orders/0/offset/20", 1, "it ends at offset 20, so that none was written there yet, or it was truncated"),
        ("orders/0/values", 2, "is not one record; name one, such as orders/0/offset/42"),
        ("orders/0/offset/1..3", 2, "is not one record"),
        ("nothing/0/offset/1", 1, "nothing"),
    ],
)
def test_what_cannot_be_explained(filled_store: Path, path: str, code: int, said: str) -> None:
    done = CliRunner().invoke(main, ["explain", str(filled_store), path], prog_name="kafkafs")
    shown = done.stderr if not isinstance(done.exception, Exception) else str(done.exception)
    assert (done.exit_code, said in shown) == (code, True), shown


def test_lines_for_people(filled_store: Path) -> None:
    done = CliRunner().invoke(main, ["explain", str(filled_store), "orders/0/by-time/2023-11-14"], prog_name="kafkafs")
    names = [line[:12].strip() for line in done.stdout.splitlines()]
    assert names[:6] == ["record", "segment", "index", "position", "batch", "checksum"]
    assert shutil.which("dd") is None or "dd if=" in done.stdout
