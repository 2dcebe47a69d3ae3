"""`kafkafs diff` finds the first batch in which copies differ, and says if brokers would make them the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.find.comparison import truncation_offset
from storage.clock import Clock
from storage.files import Files
from storage.log import LeaderEpochs
from storage.log.epoch_entries import EpochStart
from storage.record import BatchForm, batches_of_rows
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

TIME_MS = 1_700_000_000_000


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["diff", *map(str, arguments)], prog_name="kafkafs")
    assert "Traceback" not in result.output
    return result


def rows(*arguments: object) -> dict[str, dict[str, Any]]:
    result = run("--json", *arguments)
    found = {f"{row['topic']}/{row['partition']}": row for row in json.loads(result.stdout)}
    assert result.exit_code == int(any(row["result"] != "same" for row in found.values())), result.stderr
    return found


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    """Two stores that were the same up to offset 10, where another leader went on in each."""
    first, second = tmp_path / "first", tmp_path / "second"
    with Store.create([first], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1)
        append(store, 10, 0)
    shutil.copytree(first, second)
    return first, second


def append(store: Store, count: int, epoch: int, value: bytes = b"v", **form: Any) -> None:
    for _ in range(count):
        (batch,) = batches_of_rows([(TIME_MS, b"k", value, ())], base_offset=None, form=BatchForm(**form))
        store.log("orders", 0).append_as_leader(batch, leader_epoch=epoch)


def go_on(path: Path, *arguments: Any, **form: Any) -> None:
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
        append(store, *arguments, **form)


@pytest.mark.golden
def test_copies_of_a_brokers_store_are_the_same_up_to_the_byte_that_cmp_finds(
    datasets: Callable[[str], Path], tmp_path: Path
) -> None:
    store = datasets("kafka-3.9") / "kafka-3.9" / "d1"
    copy = shutil.copytree(store, tmp_path / "copy")
    assert {each["result"] for each in rows(store, copy).values()} == {"same"}
    logs = sorted(log for log in copy.glob("t-*/*.log") if log.stat().st_size > 5000)[::9]
    for log in logs:
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 1
        log.write_bytes(data)
    found = rows(store, copy)
    for log in logs:
        original = store / log.parent.name / log.name
        said = subprocess.run(["cmp", original, log], capture_output=True, text=True, check=False).stdout
        at = int(said.split("byte ")[1].split(",")[0]) - 1
        topic, _, partition = log.parent.name.rpartition("-")
        row = found.pop(f"{topic}/{partition}")
        assert row["side"]["segment"] == log.name
        assert row["side"]["position"] <= at < row["side"]["position"] + row["side"]["batch"]["bytes"]
    assert {each["result"] for each in found.values()} == {"same"}


def test_leaders_that_went_on_apart_are_reconciled_by_truncation(stores: tuple[Path, Path]) -> None:
    first, second = stores
    go_on(first, 3, 1)
    go_on(second, 2, 2, b"other")
    row = rows(first, second)["orders/0"]
    assert (row["result"], row["offset"], row["isReconciled"], row["isOtherReconciled"]) == (
        "different",
        10,
        True,
        True,
    )
    assert "leaderEpoch" in row["fields"]
    assert row["side"]["truncatedTo"] == row["other"]["truncatedTo"] == 10
    assert "which reconciles them" in run(first, second).stdout


def test_one_epoch_with_different_records_is_not(stores: tuple[Path, Path]) -> None:
    first, second = stores
    go_on(first, 2, 0)
    go_on(second, 2, 0, b"w", producer_id=7, producer_epoch=0, base_sequence=0)
    row = rows(first, second, "ord*")["orders/0"]
    assert (row["offset"], row["isReconciled"], row["hasSameRecords"]) == (10, False, False)
    assert {"producerId", "producerEpoch", "baseSequence"} <= set(row["fields"])


def test_a_backup_is_shorter_than_its_origin(stores: tuple[Path, Path]) -> None:
    first, second = stores
    assert run(first, second).exit_code == 0
    go_on(first, 1, 0)
    assert [row["result"] for row in rows(second, first).values()] == ["shorter"]
    assert [row["result"] for row in rows(first, second).values()] == ["longer"]
    assert "would truncate nothing and fetch the rest" in run(first, second).stdout


def test_what_only_one_has_and_what_neither_has(stores: tuple[Path, Path], tmp_path: Path) -> None:
    first, _ = stores
    with Store.create([tmp_path / "third"], files=Files(), clock=Clock()) as store:
        store.topics.create("others", 1)
    found = rows(first, tmp_path / "third")
    assert {name: row["result"] for name, row in found.items()} == {
        "orders/0": "only in first",
        "others/0": "only in second",
    }
    assert list(rows(first, tmp_path / "third", "orders/0", "orders/9", "o*/[1-9]")) == ["orders/0"]
    done = run(first, tmp_path / "third", "nothing", "orders/1")
    assert (done.exit_code, "neither store has nothing, orders/1" in done.stderr) == (1, True)


def test_followers_truncate_as_brokers_do(tmp_path: Path) -> None:
    """The cases of KIP-101 and KIP-279."""

    def epochs(*starts: tuple[int, int]) -> LeaderEpochs:
        return LeaderEpochs(Files().directory(tmp_path), tuple(EpochStart(*start) for start in starts))

    one_leader = epochs((0, 0))
    assert truncation_offset(one_leader, 20, one_leader, 15) == 15
    assert truncation_offset(one_leader, 10, one_leader, 15) == 10
    assert truncation_offset(epochs((0, 0), (1, 10)), 20, one_leader, 15) == 10
    assert truncation_offset(epochs((0, 0), (2, 10)), 20, epochs((0, 0), (1, 12)), 15) == 10
    assert truncation_offset(epochs((0, 0), (1, 12)), 20, epochs((0, 0), (2, 10)), 15) == 10
    assert truncation_offset(epochs(), 20, one_leader, 15) is None
