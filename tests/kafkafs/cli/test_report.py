"""`kafkafs report` as a command: the page that it writes, the same as data, and stores that are broken."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from group_stores import commit
from parsed_pages import ParsedPage, check_page

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.internal import offsets
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

HOSTILE = "<img src=//example.org/x onerror=alert(1)>\x1b[31m"


def report(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["report", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def page_on(store: Path, output: Path, *options: str) -> ParsedPage:
    result = report(store, "-o", output, *options)
    assert result.exit_code == 0, result.output
    return check_page(output.read_bytes())


def rows_on(store: Path, *options: str) -> list[dict[str, Any]]:
    result = report(store, "--json", *options)
    assert result.exit_code == 0
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def state_of(store: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in store.rglob("*")}


def main_text(page: ParsedPage) -> str:
    (found,) = page.all("main")
    return found.text


@pytest.mark.parametrize("options", [(), ("--full",)])
def test_the_page_and_the_rows_of_a_store(filled_store: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    with Store.open([filled_store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        opened.topics.create(offsets.TOPIC, 1)
        commit(opened, HOSTILE, "orders", 0, 5)
    before = state_of(filled_store)
    text = main_text(page_on(filled_store, tmp_path / "page.html", *options))
    assert all(
        name in text for name in ("orders", "payments", "zstd", "<img src=//example.org/x onerror=alert(1)>\\u001B")
    )
    rows = rows_on(filled_store, *options)
    (lag,) = [row["lag"] for row in rows if row["row"] == "group"]
    assert lag == 15
    orders = next(row for row in rows if (row["row"], row.get("topic")) == ("partition", "orders"))
    assert (orders["records"], orders["endOffset"], orders["segments"][0]["baseOffset"]) == (20, 20, 0)
    keys = {row["key"]: row["records"] for row in rows if row["row"] == "key" and row["topic"] == "orders"}
    assert keys == {"k0": 7, "k1": 7, "k2": 6}
    assert "key" not in {row["row"] for row in rows_on(filled_store, "--no-keys")}
    assert state_of(filled_store) == before


def test_some_topics_and_standard_output(filled_store: Path) -> None:
    result = report(filled_store, "pay*", "-o", "-")
    assert "payments" in main_text(check_page(result.stdout_bytes))
    lines = [json.loads(line) for line in report(filled_store, "pay*", "--jsonl").stdout.splitlines()]
    assert {line["topic"] for line in lines if line["row"] == "partition"} == {"payments"}
    assert report(filled_store, "nothing", "--json").exit_code == 1


def test_a_page_is_replaced_whole(filled_store: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    output.write_text("an earlier page")
    page_on(filled_store, output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "store"]


def test_a_page_goes_through_a_pipe_that_stays_one(filled_store: Path, tmp_path: Path) -> None:
    """As root, a file in the place of /dev/null would take all that others throw away."""
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert report(filled_store, "-o", pipe).exit_code == 0
    reader.join()
    check_page(read[0])
    assert pipe.is_fifo()


@pytest.mark.parametrize("options", [(), ("--full",)])
def test_damage_is_told_with_a_next_step(damaged_store: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    text = main_text(page_on(damaged_store, tmp_path / "page.html", *options))
    assert "damage, checksum: 1 finding" in text
    assert f"kafkafs cat {damaged_store} orders/0/damage.jsonl" in text
    rows = rows_on(damaged_store, *options)
    (found,) = [row for row in rows if row["row"] == "finding"]
    assert (found["path"], found["offset"]) == (f"orders-0/{0:020}.log", 10)
    (orders,) = [row for row in rows if row["row"] == "partition" and row["topic"] == "orders" and not row["partition"]]
    assert orders["segments"][0]["damage"] == found["reason"]


@pytest.mark.parametrize("options", [(), ("--full",)])
def test_a_torn_end_and_a_missing_index_are_told_too(
    filled_store: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    partition = filled_store / "orders-0"
    with max(partition.glob("*.log")).open("ab") as log:
        log.write(b"no batch")
    (partition / f"{0:020}.timeindex").unlink()
    text = main_text(page_on(filled_store, tmp_path / "page.html", *options))
    assert "damage, torn tail: 1 finding" in text
    assert "damage, missing index: 1 finding" in text
    found = [row for row in rows_on(filled_store, *options) if row["row"] == "finding"]
    assert [row["kind"] for row in found] == ["missing_index", "torn_tail"]


@pytest.mark.parametrize("options", [(), ("--full",)])
def test_a_partition_that_cannot_be_read_is_a_row(broken_store: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert "1 partition could not be read" in main_text(page_on(broken_store, tmp_path / "page.html", *options))
    (unread,) = [row for row in rows_on(broken_store, *options) if row["row"] == "partition" and row["error"]]
    assert (unread["topic"], unread["partition"]) == ("orders", 1)
    assert "symbolic link" in unread["error"]


def test_an_index_that_cannot_be_read_hides_nothing_else(filled_store: Path) -> None:
    index = filled_store / "payments-0" / f"{0:020}.timeindex"
    index.unlink()
    os.mkfifo(index)
    rows = rows_on(filled_store)
    (payments,) = [row for row in rows if row["row"] == "partition" and row["topic"] == "payments"]
    assert (payments["error"], payments["endOffset"]) == (None, 4)
    assert any(row["path"] == f"payments-0/{index.name}" for row in rows if row["row"] == "finding")


def test_an_empty_store(tmp_path: Path) -> None:
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()):
        pass
    assert "There are no topics." in main_text(page_on(tmp_path / "store", tmp_path / "page.html", "--full"))


def test_wrong_uses(filled_store: Path, tmp_path: Path) -> None:
    for arguments, said in (
        ((), "name the file of the page with -o FILE"),
        (("-o", tmp_path / "page.html", "--json"), "not both"),
        (("-o", tmp_path), "is a directory"),
        (("-o", tmp_path / "no" / "page.html"), "there is no directory"),
        (("-o", filled_store / "page.html"), "is in the store"),
        (("-o", filled_store / "orders-0" / ".." / "page.html"), "is in the store"),
    ):
        result = report(filled_store, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr.replace("\n", " ")
    assert report(tmp_path / "no", "--json").exit_code == 2
