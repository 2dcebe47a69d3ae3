"""What is ingested, seen as records of the store: what the input says, once."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from spark_rows import rows_of_lines

from kafkafs.cli import main
from kafkafs.spark import jobs
from kafkafs.spark.errors import JobError, OptionError
from storage.clock import Clock
from storage.files import Files
from storage.log.view import Isolation
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from spark_rows import Row

T_MS = 1_700_000_000_000


def rows(path: Path, topic: str) -> list[tuple]:
    """Time, key, value and headers of a topic's records, partition by partition."""
    with Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        return [
            (record.timestamp, record.key, record.value, list(record.headers))
            for partition in opened.topics.partitions(topic)
            for batch in opened.log(topic, partition).view.batches(0)
            for record in batch.records()
        ]


def without_offsets(found: Sequence[Row]) -> dict[tuple, list[Row]]:
    """Time, key, value and headers by topic and partition, in the order of offsets."""
    return {
        place: [(row[3], *row[5:]) for row in group]
        for place, group in groupby(found, lambda row: row[:2])
        if not place[0].startswith("__")
    }


@pytest.mark.parametrize("form", ["parquet", "envelopes"])
def test_what_was_taken_out_comes_back(
    form: str,
    spark: SparkSession,
    tmp_path: Path,
    datasets: Callable[[str], Path],
    mounted_lines: Callable[[Sequence[Path], Isolation], bytes],
) -> None:
    paths = [datasets("kafka-3.9") / "kafka-3.9" / each for each in ("d1", "d2")]
    lines = mounted_lines(paths, Isolation.COMMITTED)
    expected = without_offsets(rows_of_lines(lines))
    store, taken = tmp_path / "store", tmp_path / "taken"
    if form == "parquet":
        topics = sorted({topic for topic, _ in expected})
        jobs.export(spark, paths, taken, topics, headers=True, isolation="read_committed")
    else:
        taken.mkdir()
        kept = [line for line in lines.splitlines(keepends=True) if not json.loads(line)["topic"].startswith("__")]
        (taken / "records.jsonl").write_bytes(b"".join(kept))
    with Store.create([store], files=Files(), clock=Clock()) as made:
        for topic in {topic for topic, _ in expected}:
            made.topics.create(topic, 4, {"max.message.bytes": "20000000"})
    found = jobs.ingest(spark, taken, store).collect()
    assert {(row.topic, row.partition): row.records for row in found} == {
        place: len(records) for place, records in expected.items()
    }
    assert without_offsets(rows_of_lines(mounted_lines([store], Isolation.UNCOMMITTED))) == expected
    assert jobs.ingest(spark, taken, store).collect() == []
    assert without_offsets(rows_of_lines(mounted_lines([store], Isolation.UNCOMMITTED))) == expected


def test_an_input_is_there_once_under_its_name(spark: SparkSession, tmp_path: Path) -> None:
    source, store = tmp_path / "rows.json", tmp_path / "store"
    source.write_text('{"value":"a"}\n')

    def records(**options: object) -> int:
        found = jobs.ingest(spark, source, store, "t", **options).collect()
        return sum(row.records for row in found)

    assert [records(), records()] == [1, 0]
    assert [records(transaction="again"), records(transaction="again")] == [1, 0]
    source.write_text('{"value":"a"}\n{"value":"b"}\n')
    assert [records(transaction="again"), records(), records()] == [0, 2, 0]
    assert len(rows(store, "t")) == 4


def test_columns_of_other_names(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "store"
    named = {"key": "id", "value": "what", "timestamp": "at", "headers": "more"}
    (tmp_path / "rows.csv").write_text(
        'id,at,what,more\n1,2023-11-14T22:13:20Z,"a ""b""\nc",\n2,1700000000000,,"[{""key"":""h"",""value"":""1""}]"\n'
    )
    (tmp_path / "rows.jsonl").write_text(
        '{"id":1,"at":"2023-11-14T22:13:20Z","what":"a \\"b\\"\\nc"}\n\n'
        '{"id":"2","at":1700000000000,"what":null,"more":[{"key":"h","value":"1"}]}\n'
    )
    spark.sql(
        "select * from values (1, timestamp_millis(1700000000000), 'a \"b\"\nc', null), "
        "(2, timestamp_millis(1700000000000), null, array(named_struct('key', 'h', 'value', '1'))) "
        "as t(id, at, what, more)"
    ).coalesce(1).write.parquet(str(tmp_path / "rows.parquet"))
    for form in ("csv", "jsonl", "parquet"):
        jobs.ingest(spark, tmp_path / f"rows.{form}", store, form, columns=named)
        assert rows(store, form) == [(T_MS, b"1", b'a "b"\nc', []), (T_MS, b"2", None, [("h", b"1")])], form
    jobs.ingest(spark, tmp_path / "rows.csv", store, "whole", columns={"timestamp": "at"}, whole_row=True)
    whole = [json.loads(value) for _, _, value, _ in rows(store, "whole")]
    assert whole[0] == {"id": "1", "at": "2023-11-14T22:13:20Z", "what": 'a "b"\nc', "more": None}
    jobs.ingest(spark, tmp_path / "rows.jsonl", store, "lines", whole_row=True)
    lines = (tmp_path / "rows.jsonl").read_bytes().split()
    assert [value for _, _, value, _ in rows(store, "lines")] == [b" ".join(lines[:2]), lines[2]]


def test_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Rows keep their order and partition, and topics whose names look like numbers their names."""
    store, source = tmp_path / "store", tmp_path / "in"
    spark.range(100).selectExpr(
        "cast(id % 7 as string) as key", "cast(id as string) as value", "'007' as topic", "99 - id as offset",
        "cast(id % 2 as int) as partition",
    ).repartition(3).write.partitionBy("topic").parquet(str(source))  # fmt: skip
    with Store.create([store], files=Files(), clock=Clock()) as made:
        made.topics.create("007", 2)
    jobs.ingest(spark, source, store)
    values = [int(value) for _, _, value, _ in rows(store, "007")]
    assert values == [*range(98, -1, -2), *range(99, 0, -2)]
    jobs.ingest(spark, source, store, "by-key", by_key=True)
    assert [int(value) for _, _, value, _ in rows(store, "by-key")] == values, "of one partition only"


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("a.json", '{"id":1}', {}, "a line is no record: an envelope has no field 'id'"),
        ("a.json", '{"id":1}', {"columns": {"value": "what"}}, "there is no field 'what' for the value; there are id"),
        ("a.csv", "id\n1\n", {"columns": {"value": "what"}}, "there is no column 'what'; there are id"),
        ("a.csv", "id,b\n1\n", {"columns": {"value": "id"}}, "Malformed"),
        ("a.txt", "a", {}, "the names of the files do not say what is in them: give a form"),
        ("a.csv", "value\n1\n", {"form": "avro"}, "the form is one of parquet, envelopes, json, csv, not 'avro'"),
        ("a.csv", "value\n1\n", {"columns": {"size": "a"}}, "a record has no 'size'; it has key, value"),
        ("a.csv", "value\n1\n", {"columns": {"value": "a"}, "whole_row": True}, "either a column or the whole row"),
        ("a.json", "", {"form": "envelopes", "whole_row": True}, "envelopes have no columns to be named"),
        ("a.csv", "value,partition\n1,9\n", {}, "the topic t has no partition 9"),
    ],
)
def test_what_cannot_be_ingested_is_told(
    name: str, text: str, options: dict, said: str, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as made:
        made.topics.create("t", 1)
    with pytest.raises(Exception, match=said):
        jobs.ingest(spark, tmp_path / name, tmp_path / "store", "t", **options)
    assert rows(tmp_path / "store", "t") == []


def test_the_command(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.getActiveSession() is not None
    (tmp_path / "a.csv").write_text("id,what\n1,x\n")
    store = str(tmp_path / "store")
    command = ["spark", "ingest", store, str(tmp_path / "a.csv"), "--topic", "t"]
    command += ["--key-column", "id", "--value-column", "what", "--json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    row = {"topic": "t", "partition": 0, "startOffset": 0, "endOffset": 1, "records": 1}
    assert json.loads(done.stdout) == [row]
    assert "appended 1 records to 1 partitions" in done.stderr
    assert "all of it is in the store already" in CliRunner().invoke(main, command).stderr
    live = ["spark", "ingest", store, "--from-kafka", "127.0.0.1:1", "--topic", "t"]
    assert "--from-kafka needs --topic and --checkpoint" in CliRunner().invoke(main, live).stderr
    without_jar = CliRunner().invoke(main, [*live, "--checkpoint", str(tmp_path / "checkpoint")])
    assert without_jar.stderr.startswith("kafkafs: reading Kafka needs Spark's own connector: give --conf spark.jars.")


def test_errors_are_of_their_kinds(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the form is one of"):
        jobs.ingest(spark, tmp_path, tmp_path / "store", form="avro")
    with pytest.raises(JobError, match="reading Kafka needs Spark's own connector"):
        jobs.ingest_from_kafka(spark, "127.0.0.1:1", ["t"], tmp_path / "store", tmp_path / "checkpoint")
