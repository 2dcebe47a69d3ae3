"""`kafkafs groups` as a command: what it says of groups of real brokers, and of a store without any."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from group_stores import TIME_MS, commit, write

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.internal import offsets
from storage.record import BatchForm, batches_of_rows
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

COMMITTED = re.compile(
    r'key: \{"type":"1","data":(\{.*?\})\} payload: (?:<DELETE>|\{"version":"\d","data":(\{.*?\})\})'
)


def groups(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["groups", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def done(*arguments: object) -> str:
    result = groups(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store where `billing` has read some of orders/0, and all of a partition that is not here."""
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as opened:
        opened.topics.create("orders", 2)
        opened.topics.create(offsets.TOPIC, 2)
        for number in range(9):
            write(opened, "orders", None, b"%d" % number)
        commit(opened, "billing", "orders", 0, 4, metadata="a\tb\x1b")
        commit(opened, "billing", "elsewhere", 3, 7)
        commit(opened, "billing", "orders", 1, 5)
        commit(opened, "billing", "orders", 1, None)
        commit(opened, "expired", "orders", 0, 9, at=1, expireTimestamp=TIME_MS)
    return path


@pytest.mark.golden
def test_the_offsets_of_a_real_broker_are_those_of_its_dump(datasets: Callable[[str], Path]) -> None:
    name = "kafka-3.9"
    root = datasets(name) / name
    committed: dict[tuple[str, str, int], int | None] = {}
    for text in root.with_name(f"{name}.dump").glob("d?/__consumer_offsets-*/*.log.txt"):
        for key, value in COMMITTED.findall(text.read_text()):
            named = json.loads(key)
            committed[named["group"], named["topic"], named["partition"]] = (
                json.loads(value)["offset"] if value else None
            )
    expected = {key: offset for key, offset in committed.items() if offset is not None}
    assert len(expected) >= 4
    rows = json.loads(done(f"{root / 'd1'},{root / 'd2'}", "--json"))
    assert {(row["group"], row["topic"], row["partition"]): row["committedOffset"] for row in rows} == expected
    stats = CliRunner().invoke(main, ["stats", f"{root / 'd1'},{root / 'd2'}", "--json"]).stdout
    ends = {(row["topic"], row["partition"]): row["endOffset"] for row in json.loads(stats)}
    for row in rows:
        assert row["endOffset"] == ends[row["topic"], row["partition"]]
        assert row["lag"] == row["endOffset"] - row["committedOffset"]
        assert (row["state"], row["kind"], row["memberId"]) == ("Empty", "Classic", None)


@pytest.mark.golden
def test_every_data_set_has_its_groups(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-2.2") / "kafka-2.2"
    rows = json.loads(done(f"{root / 'd1'},{root / 'd2'}", "--json"))
    assert {row["group"] for row in rows} == {"g1", "g2"}
    assert [row["lag"] for row in rows] == [700, 0, 700, 0]


def test_rows_and_forms(store: Path) -> None:
    rows = json.loads(done(store, "billing", "--json"))
    assert [(row["topic"], row["partition"], row["committedOffset"], row["endOffset"], row["lag"]) for row in rows] == [
        ("elsewhere", 3, 7, None, None),
        ("orders", 0, 4, 9, 5),
    ]
    assert rows[1]["metadata"] == "a\tb\x1b"
    assert rows[1]["ageSeconds"] == pytest.approx((time.time() * 1000 - TIME_MS) / 1000, abs=60)
    assert [json.loads(line)["lag"] for line in done(store, "billing", "--jsonl").splitlines()] == [None, 5]
    assert [row["lag"] for row in csv.DictReader(io.StringIO(done(store, "billing", "--csv")))] == ["", "5"]
    lines = [line.split() for line in done(store, "billing").splitlines()]
    assert {len(line) for line in lines} == {17}
    assert lines[1][:6] == ["billing", "elsewhere", "3", "7", "-", "-"]
    assert lines[2][8] == "a\\tb\\u001B"
    assert done(store, "billing") == done(store, "billing", "--table")


def test_committed_offsets_below_the_log_start_and_above_its_end_are_marked(store: Path) -> None:
    with Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        opened.log("orders", 0).advance_start(5)  # type: ignore[attr-defined]
        commit(opened, "ahead", "orders", 0, 12)
        commit(opened, "sound", "orders", 0, 5)
    rows = [row for row in json.loads(done(store, "--json")) if row["topic"] == "orders"]
    assert {(row["group"], row["logStartOffset"], row["outOfRange"]) for row in rows} == {
        ("billing", 5, "BelowLogStart"),
        ("ahead", 5, "AboveLogEnd"),
        ("sound", 5, None),
    }
    assert {row["startOffset"] for row in rows} == {None}
    (elsewhere,) = [row for row in json.loads(done(store, "billing", "--json")) if row["topic"] == "elsewhere"]
    assert (elsewhere["logStartOffset"], elsewhere["outOfRange"]) == (None, None)
    names, *lines = [line.split() for line in done(store, "ahead", "--table").splitlines()]
    assert [dict(zip(names, line, strict=True))["outOfRange"] for line in lines] == ["AboveLogEnd"]


def test_an_offset_that_expired_by_its_own_word_is_not_shown(store: Path) -> None:
    [row] = json.loads(done(store, "expired", "--json"))
    assert (row["topic"], row["state"]) == (None, "Empty")


def test_a_group_whose_id_is_no_text_is_found_and_printed_as_it_is(store: Path) -> None:
    with Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        commit(opened, "no \udcff text", "orders", 0, 9, at=1)
    command = [sys.executable, "-P", "-m", "kafkafs", "groups", store, b"no \xff text", "--csv"]
    printed = subprocess.run(command, capture_output=True, check=True)
    assert printed.stdout.splitlines()[1].startswith(b"no \xff text,orders,0,9,,9,0,")


def test_a_group_that_is_not_there(store: Path) -> None:
    result = groups(store, "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "kafkafs: there is no group 'none' in this store's partitions of __consumer_offsets\n"


def test_a_store_without_the_topic_says_so(tmp_path: Path) -> None:
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as opened:
        opened.topics.create("orders", 1)
    said = "kafkafs: the store has no partition of __consumer_offsets, and so has no groups\n"
    result = groups(tmp_path / "store", "--json")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "[]\n", said)
    result = groups(tmp_path / "store", "some")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", said)


def test_damage_is_told_and_the_rest_shown(store: Path) -> None:
    log = store / "__consumer_offsets-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[data.index(b"elsewhere")] ^= 1
    log.write_bytes(data)
    result = groups(store, "billing", "--json")
    assert result.exit_code == 0
    assert str(log) in result.stderr
    assert [row["topic"] for row in json.loads(result.stdout)] == ["orders"]


def test_a_hundred_thousand_offsets_take_seconds(store: Path) -> None:
    rows = [
        (
            TIME_MS,
            offsets.encode_key(1, {"group": f"g{number % 1000}", "topic": "orders", "partition": number // 1000}),
            offsets.encode_value(1, 3, {"offset": number, "metadata": "", "commitTimestamp": TIME_MS}),
            (),
        )
        for number in range(100_000)
    ]
    with Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        log = opened.log(offsets.TOPIC, 0)
        for first in range(0, len(rows), 1000):
            for batch in batches_of_rows(rows[first : first + 1000], base_offset=None, form=BatchForm()):
                log.append_as_leader(batch, leader_epoch=0)  # type: ignore[attr-defined]
    begun = time.process_time()
    lines = done(store, "--jsonl").splitlines()
    assert time.process_time() - begun < 30
    assert len(lines) == 100_000 + 3
