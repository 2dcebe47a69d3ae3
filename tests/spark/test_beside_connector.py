"""The source beside Spark's own for Kafka, on the log directories of a real broker and on the broker itself.

All sets of options are tried by `scripts/prove spark judge`, and a sample otherwise: the connector runs a job for each.
"""

from __future__ import annotations

import asyncio
import os
from importlib import metadata
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from cluster_drivers import Driver, environment
from connector_cases import DIFFERENT, IN_OTHER_WORDS, REFUSED, SAME, fill
from held_processes import Rules

from kafkafs.spark.errors import DataLossError, OptionError
from kafkafs.spark.options import includes_headers
from kafkafs.spark.readers import StoreReader
from kafkafs.spark.schema import source_schema
from kafkafs.spark.source import KafkafsSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from connector_cases import Options
    from real_brokers import Broker, RealKafka

SAMPLE = 1 if os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove" else 6
"""Of as many sets of options one is tried."""


@pytest.fixture(scope="module")
def broker(real_kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run a broker whose topics have records of every kind."""
    with real_kafka.broker(tmp_path_factory.mktemp("broker"), {"log.retention.ms": "-1"}) as running:
        asyncio.run(fill(running.bootstrap))
        yield running


@pytest.fixture(scope="module")
def theirs(
    broker: Broker,
    real_kafka: RealKafka,
    spark_settings: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[list[Options]], list[list[str] | str]]]:
    """Return what Spark's own source makes of sets of options: rows, or an error in one line."""
    directory = tmp_path_factory.mktemp("driver")
    jars = real_kafka.connector(metadata.version("pyspark"))
    driver = Driver({**spark_settings, "spark.jars": jars}, environment(Rules(directory / "rules")), directory / "log")

    def answers(cases: list[Options]) -> list[list[str] | str]:
        found = driver.run("kafka", bootstrap=broker.bootstrap, cases=cases)
        return [in_one_line(each) if isinstance(each, str) else each for each in found]

    yield answers
    driver.kill()


@pytest.fixture(scope="module")
def ours(broker: Broker) -> Callable[[Options], list[str] | str]:
    """Return what our source makes of options, in this process, as Spark's workers would ask it."""

    def answer(options: Options) -> list[str] | str:
        given = {**options, "path": ",".join(map(str, broker.log_dirs))}
        try:
            schema = source_schema(has_headers=includes_headers(KafkafsSource(given).options))
            reader = StoreReader(given, schema)
            batches = [batch for pack in reader.partitions() for batch in reader.read(pack)]
        except (OptionError, DataLossError) as error:
            return in_one_line(str(error))
        return sorted(repr(row) for batch in batches for row in batch.to_pylist())

    return answer


def in_one_line(text: str) -> str:
    """Return an error without its line breaks and spaces, which the two set differently in examples of JSON."""
    return "".join(text.split())


def says(found: list[str] | str, said: str) -> bool:
    return isinstance(found, str) and in_one_line(said).lower() in found.lower()


def test_rows_are_the_same(theirs: Callable, ours: Callable) -> None:
    cases = SAME[::SAMPLE]
    for options, found in zip(cases, theirs(cases), strict=True):
        assert isinstance(found, list), (options, found)
        assert ours(options) == found, options


def test_errors_are_the_same(theirs: Callable, ours: Callable) -> None:
    cases = REFUSED[::SAMPLE]
    for (options, said), found in zip(cases, theirs([options for options, _ in cases]), strict=True):
        assert says(found, said), (options, found)
        assert says(ours(options), said), (options, ours(options))


def test_errors_that_have_other_words_are_errors_of_both(theirs: Callable, ours: Callable) -> None:
    cases = IN_OTHER_WORDS[::SAMPLE]
    for (options, said, words), found in zip(cases, theirs([each[0] for each in cases]), strict=True):
        assert says(found, said), (options, found)
        assert says(ours(options), words), (options, ours(options))


def test_differences_are_on_the_page(theirs: Callable, ours: Callable) -> None:
    sets = len(SAME) + len(REFUSED) + len(IN_OTHER_WORDS) + len(DIFFERENT)
    page = in_one_line(files("kafkafs").joinpath("docs", "pyspark.md").read_text(encoding="utf-8"))
    assert in_one_line(f"for {sets} sets of options") in page
    cases = DIFFERENT[::SAMPLE]
    for each, found in zip(cases, theirs([each.options for each in cases]), strict=True):
        for outcome, expected in ((found, each.theirs), (ours(each.options), each.ours)):
            is_so = says(outcome, expected) if isinstance(expected, str) else len(outcome) == expected
            assert is_so, (each.options, outcome)
        assert in_one_line(each.page) in page
