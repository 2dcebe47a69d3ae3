"""The jobs `skew`, `gaps` and `diff`, against what is computed of the source's rows by the simplest means."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.spark import jobs, read
from storage.clock import Clock
from storage.files import Files
from storage.record.compression import Codec
from storage.record.encoding import BatchForm, batches_of_rows
from storage.segment.names import Kind
from storage.split.splits import packed
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.testing import Result
    from conftest import GrowingStore
    from pyspark.sql import SparkSession

    Partition = tuple[str, int]

SPLIT_BYTES = 20_000
PACK_BYTES = 2_000_000
TOP = 5


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tasks do little, so that there are many, and logs are cut."""
    for name in ("skew", "gaps", "diff"):
        module = import_module(f"kafkafs.spark.jobs.{name}")
        monkeypatch.setattr(module, "DEFAULT_SPLIT_BYTES", SPLIT_BYTES)
        monkeypatch.setattr(module, "packed", lambda pieces, *_: packed(pieces, PACK_BYTES))


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["spark", *map(str, arguments)])
    assert "Traceback" not in result.output
    return result


def log_dirs(datasets: Callable[[str], Path], name: str) -> list[Path]:
    return [datasets(name) / name / each for each in ("d1", "d2")]


def by_partition(spark: SparkSession, store: Any, columns: list[str]) -> dict[Partition, list[Any]]:
    """The source's rows of each partition, in the order of their offsets."""
    found: dict[Partition, list[Any]] = {}
    for row in read(spark, store, columns=["topic", "partition", "offset", *columns]).collect():
        found.setdefault((row.topic, row.partition), []).append(row)
    return {partition: sorted(rows, key=lambda row: row.offset) for partition, rows in found.items()}


def append(store: GrowingStore, topic: str, partition: int, rows: Iterable[tuple[Any, ...]], **options: Any) -> None:
    """Append rows of time, key, value and headers."""
    for batch in batches_of_rows(list(rows), base_offset=None, **options):
        store.store.log(topic, partition).append_as_leader(batch, leader_epoch=0)


# skew


@pytest.mark.golden
def test_skew_is_what_the_rows_say(spark: SparkSession, datasets: Callable[[str], Path]) -> None:
    store = log_dirs(datasets, "kafka-2.2")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in jobs.skew(spark, store, top=TOP).collect():
        found.setdefault(row.topic, []).append(row.asDict())
    on_disk = json.loads(CliRunner().invoke(main, ["stats", ",".join(map(str, store)), "--json"]).stdout)
    rows = by_partition(spark, store, ["key", "value"])
    assert sorted(found) == sorted({each["topic"] for each in on_disk})
    for topic, parts in found.items():
        bytes_of = {each["partition"]: each["bytes"] for each in on_disk if each["topic"] == topic}
        records = {number: rows.get((topic, number), []) for number in bytes_of}
        counts = [len(each) for each in records.values()]
        whole, partitions, keys = parts[0], parts[1 : 1 + len(records)], parts[1 + len(records) :]
        assert (whole["kind"], whole["records"], whole["bytes"]) == ("topic", sum(counts), sum(bytes_of.values()))
        assert whole["ratio"] == (max(counts) * len(counts) / sum(counts) if sum(counts) else None)
        assert [(each["partition"], each["records"], each["bytes"]) for each in partitions] == [
            (number, len(records[number]), bytes_of[number]) for number in sorted(bytes_of)
        ]
        assert {each["kind"] for each in partitions} == {"partition"}
        assert [each["dataBytes"] for each in partitions] == [
            sum(len(row.key or b"") + len(row.value or b"") for row in records[number]) for number in sorted(bytes_of)
        ]
        all_rows = [row for each in records.values() for row in each]
        keys_of = Counter(None if row.key is None else bytes(row.key) for row in all_rows)
        assert [each["records"] for each in keys] == sorted(keys_of.values(), reverse=True)[:TOP]
        assert {each["recordsOver"] for each in keys} <= {0}
        for each in keys:
            key = None if each["key"] is None else each["key"].encode()
            if each["key_base64"] is None:
                assert keys_of[key] == each["records"]
                of_key = [row for row in all_rows if row.key == key]
                assert each["dataBytes"] == sum(len(row.key or b"") + len(row.value or b"") for row in of_key)
    assert any(each["key"] is None and each["key_base64"] is None for each in found["t-none"] if each["kind"] == "key")


def test_keys_that_are_too_many_to_be_counted_are_bounded(spark: SparkSession, growing: GrowingStore) -> None:
    growing.create("orders", 2)
    numbers = range(40_000)
    due = Counter(b"hot" if number % 7 == 0 else b"%d" % (number // 2 * 2) for number in numbers)
    for partition in (0, 1):
        keys = [b"hot" if number % 7 == 0 else b"%d" % (number // 2 * 2) for number in numbers[partition::2]]
        append(growing, "orders", partition, [(1, key, b"value", ()) for key in keys], max_bytes=1000)
    hot, *others = [row for row in jobs.skew(spark, growing.path, ["orders"], top=3).collect() if row.kind == "key"]
    assert hot.key == "hot"
    for row in (hot, *others):
        assert row.records - row.recordsOver <= due[row.key.encode()] <= row.records
    assert hot.recordsOver <= len(numbers) // 4096
    assert len(others) <= 2, "those that are as rare as all others are not told apart"
    result = run("skew", growing.path, "--top", 1, "--jsonl")
    assert result.exit_code == 0
    topic, first, second, key = map(json.loads, result.stdout.splitlines())
    assert (topic["kind"], topic["ratio"], first["partition"], second["partition"]) == ("topic", 1.0, 0, 1)
    assert (key["key"], key["kind"]) == ("hot", "key")
    assert result.stderr.startswith("weighed 1 topics, 2 partitions in ")


# gaps


def offsets_of(store: list[Path]) -> dict[Partition, tuple[int, int, set[int]]]:
    """Where each partition begins and ends, and the offsets that are there, control records' among them."""
    found = {}
    with Store.open(store, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        for topic, partition in opened.topics.inventory.partitions():
            view = opened.log(topic, partition).view
            batches = view.batches(view.start_offset)
            offsets = {record.offset for batch in batches for record in batch.records()}
            found[topic, partition] = (view.start_offset, view.end_offset, offsets)
    return found


@pytest.mark.golden
def test_gaps_are_what_the_rows_say(
    spark: SparkSession, datasets: Callable[[str], Path], topic_settings: dict[str, dict[str, str]]
) -> None:
    store = log_dirs(datasets, "kafka-3.9")
    rows = by_partition(spark, store, ["timestamp", "timestampType"])
    found: dict[Partition, dict[str, list[Any]]] = {}
    for row in jobs.gaps(spark, store).collect():
        found.setdefault((row.topic, row.partition), {}).setdefault(row.kind, []).append(row)
    for partition, (start, end, offsets) in offsets_of(store).items():
        kinds = found.get(partition, {})
        missing = set(range(start, end)) - offsets
        holes = [set(range(hole.firstOffset, hole.lastOffset + 1)) for hole in kinds.get("hole", ())]
        assert set().union(*holes) == missing
        assert sum(map(len, holes)) == len(missing)
        is_compacted = "compact" in topic_settings.get(partition[0], {}).get("cleanup.policy", "")
        assert is_compacted or not holes
        assert all(hole.isCompacted for hole in kinds.get("hole", ()))
        times = [
            (row.offset, round(row.timestamp.timestamp() * 1000))
            for row in rows.get(partition, ())
            if row.timestampType == 0 and row.timestamp.timestamp() >= 0
        ]
        steps = [(before - after, at) for (_, before), (at, after) in pairwise(times) if after < before]
        (regression,) = kinds.get("time_regression", [None])
        if regression is None:
            assert not steps
        else:
            largest = max(step for step, _ in steps)
            assert (regression.extent, regression.regressionMs) == (len(steps), largest)
            assert regression.firstOffset == next(at for step, at in steps if step == largest)
        assert is_compacted or not kinds.keys() - {"time_regression"}
    assert any("hole" in kinds for kinds in found.values())
    assert any("sequence_gap" in kinds for kinds in found.values())


def test_the_command_gaps(spark: SparkSession, growing: GrowingStore) -> None:
    growing.create("orders")
    growing.append("orders", 0, 40)
    result = run("gaps", growing.path, "--jsonl")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("found 0 gaps in 0 partitions in ")
    growing.append("orders", 0, 2, first_timestamp_ms=1)
    log = growing.store.log("orders", 0)
    victim = list(log.view.batches(0))[3]
    with Path(log.view.segments[0].path(Kind.LOG)).open("r+b") as file:
        file.seek(victim.position + victim.size_bytes - 1)
        file.write(b"\xff")
    result = run("gaps", growing.path, "orders", "--jsonl")
    assert result.exit_code == 1
    damage, regression = map(json.loads, result.stdout.splitlines())
    assert (damage["kind"], damage["firstOffset"], damage["lastOffset"], damage["extent"]) == ("damage", 3, 3, 1)
    assert (damage["log"], damage["position"]) == (f"{0:020}.log", victim.position)
    assert (regression["kind"], regression["firstOffset"]) == ("time_regression", 40)
    assert run("gaps", growing.path, "--threshold-ms", 2**41, "--csv").stdout.count("\n") == 2
    result = run("gaps", growing.path, "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "kafkafs: there is no topic 'none' in the store; its topics are: orders\n"
    assert spark.range(1).count() == 1  # the session of others is left running


# diff


@pytest.mark.golden
def test_what_compaction_took_away_is_what_differs(spark: SparkSession, datasets: Callable[[str], Path]) -> None:
    before, after = (datasets("kafka-3.9-compaction") / f"kafka-3.9-compaction-{when}" for when in ("before", "after"))
    ours, theirs = (by_partition(spark, store, []) for store in (before, after))
    for one, other, rows, other_rows in ((before, after, ours, theirs), (after, before, theirs, ours)):
        found = jobs.diff(spark, one, other, differences_max=7).collect()
        assert {(row.topic, row.partition) for row in found} == set(rows) == set(other_rows)
        for row in found:
            offsets, others = ({each.offset for each in of[row.topic, row.partition]} for of in (rows, other_rows))
            due = sorted(offsets ^ others)
            assert (row.records, row.otherRecords, row.differing) == (len(offsets), len(others), len(due))
            side = "store" if one == before else "other"
            assert [(each.offset, each.fields, each.onlyIn) for each in row.differences] == [
                (offset, [], side) for offset in due[:7]
            ]
            assert not row.isSame
            assert (row.startOffset, row.endOffset) == (row.otherStartOffset, row.otherEndOffset)
        assert all(row.isSame for row in jobs.diff(spark, one, one).collect())


def some_rows(count: int) -> list[tuple[Any, ...]]:
    headers: list[Any] = [(), (("h", None),), (("h", b""), ("h", b"2"))]
    return [
        (
            1_700_000_000_000 + number,
            *[None, b"", b"%d" % number][number % 3 :][:1],
            b"v" * (number % 50),
            headers[number % 3],
        )
        for number in range(count)
    ]


def test_what_is_written_otherwise_is_the_same_and_what_is_not_is_told(
    spark: SparkSession, growing: GrowingStore, tmp_path: Path
) -> None:
    other = type(growing)(tmp_path / "other")
    rows = some_rows(3000)
    for store, form, max_bytes in ((growing, BatchForm(), 700), (other, BatchForm(codec=Codec.ZSTD), 5000)):
        store.create("orders", 2)
        append(store, "orders", 0, rows, form=form, max_bytes=max_bytes)
        append(store, "orders", 1, rows, form=form, max_bytes=max_bytes)
    assert [row.isSame for row in jobs.diff(spark, growing.path, other.path).collect()] == [True, True]
    result = run("diff", growing.path, other.path, "orders", "--jsonl")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("compared 2 partitions, 6000 records: 0 partitions differ in ")

    growing.create("left")
    changed = [*rows[:3], (1, *rows[3][1:]), (*rows[4][:2], None, rows[4][3]), (*rows[5][:3], ()), (0, None, b"", ())]
    growing.create("right")
    other.create("right")
    append(growing, "right", 0, rows[:6])
    append(other, "right", 0, changed, form=BatchForm(codec=Codec.GZIP), max_bytes=200)
    result = run("diff", growing.path, other.path, "--jsonl", "--first", 2)
    assert result.exit_code == 1
    left, right = map(json.loads, result.stdout.splitlines())
    assert (left["topic"], left["onlyIn"], left["startOffset"], left["otherStartOffset"]) == ("left", "store", 0, None)
    assert (right["endOffset"], right["otherEndOffset"], right["records"], right["otherRecords"]) == (6, 7, 6, 6)
    assert right["differing"] == 3
    assert right["differences"] == [
        {"offset": 3, "fields": ["timestamp"], "onlyIn": None},
        {"offset": 4, "fields": ["value"], "onlyIn": None},
    ]
    result = run("diff", growing.path, other.path, "none")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "kafkafs: there is no topic 'none' in either store\n"
    other.store.close()
