"""`kafkafs top` in lines: its forms, which topics, in which order, and what it ends with."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def top(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["top", "--interval", "0.1", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def done(*arguments: object) -> str:
    result = top(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_one_look_is_a_table_for_people(filled_store: Path) -> None:
    figures, names, orders, payments = done(filled_store, "--once", "--sort", "size").splitlines()
    assert "  topics 2  partitions 3  size " in figures
    assert names.split()[:3] == ["TOPIC", "PARTS", "BYTES/S"]
    assert orders.split()[:4] == ["orders", "2", "0B", "0"]
    assert payments.split()[0] == "payments"
    looks = done(filled_store, "-n", "2", "--partitions", "--sort", "name", "--first", "2").split("\n\n")
    assert [[line.split()[0] for line in look.splitlines()[2:]] for look in looks] == [["orders-0", "orders-1"]] * 2


def test_the_forms_have_the_same_fields(filled_store: Path) -> None:
    (orders, payments) = json.loads(done(filled_store, "--once", "--json", "--sort", "name"))
    assert (orders["topic"], orders["partitions"], orders["recordsPerSecond"], orders["errors"]) == (
        "orders",
        2,
        0.0,
        0,
    )
    assert payments["oldestTimestamp"] == 1_700_000_000_000
    lines = done(filled_store, "-n", "2", "--jsonl", "--sort", "name").splitlines()
    assert [json.loads(line)["topic"] for line in lines] == ["orders", "payments"] * 2
    assert list(json.loads(lines[0])) == list(orders)
    rows = list(csv.DictReader(io.StringIO(done(filled_store, "--once", "--csv", "--partitions"))))
    assert {row["topic"] + row["partition"]: row["endOffset"] for row in rows}["orders0"] == "20"
    assert len(json.loads(done(filled_store, "-n", "3", "--json"))) == 6  # one array for all looks
    assert done(filled_store, "--once", "--table").split()[:2] == ["timestamp", "topic"]


def test_topics_may_be_patterns_and_have_to_be_there(filled_store: Path) -> None:
    assert [row["topic"] for row in json.loads(done(filled_store, "pay*", "--once", "--json"))] == ["payments"]
    missing = top(filled_store, "nothing", "--once")
    assert (missing.exit_code, missing.stdout, missing.stderr) == (1, "", "kafkafs: there is no topic 'nothing'\n")


def test_a_partition_that_cannot_be_read_is_a_row(broken_store: Path) -> None:
    result = top(broken_store, "--once", "--partitions", "--sort", "name")
    assert result.exit_code == 3
    assert "! partitions with errors: 1" in result.stdout.splitlines()
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("orders-1")]
    assert row.split("! ")[1].endswith("is a symbolic link, which is not followed") or "link" in row
    (topic,) = json.loads(top(broken_store, "--once", "orders", "--json").stdout)
    assert (topic["errors"], topic["partitions"]) == (1, 2)


def test_an_empty_store(tmp_path: Path) -> None:
    Store.create([tmp_path / "store"], files=Files(), clock=Clock()).close()
    assert done(tmp_path / "store", "--once").splitlines()[0].endswith("topics 0  partitions 0  size 0 B")
    assert json.loads(done(tmp_path / "store", "--once", "--json")) == []


@pytest.mark.parametrize("option", [["--interval", "0"], ["-n", "0"], ["--sort", "nothing"], ["--first", "0"]])
def test_wrong_usage(filled_store: Path, option: list[str]) -> None:
    assert top(filled_store, *option).exit_code == 2
