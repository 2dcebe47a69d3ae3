"""The library beside kafka-python: the same records, read from a store and from the broker that has it open."""

from __future__ import annotations

import inspect
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from timing import Scoreboard

import kafkafs

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKOUT = Path(__file__).resolve().parents[2]
RECORDS = 200_000
ROUNDS = 5
TARGET = 5.0


def by_kafkafs(store_path: str, end: int) -> int:
    with kafkafs.open(store_path) as store:
        return sum(len(record.value) for record in store["orders"][0].records(offsets=f"..{end}"))


def by_kafka_python(bootstrap: str, end: int) -> int:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False)
    partition = TopicPartition("orders", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    value_bytes = 0
    for record in consumer:
        value_bytes += len(record.value)
        if record.offset + 1 >= end:
            break
    consumer.close()
    return value_bytes


def columns(store_path: str, end: int) -> int:
    with kafkafs.open(store_path) as store:
        batches = store["orders"][0].to_batches(offsets=f"..{end}", columns=["value"])
        return sum(batch.num_rows for batch in batches)


def produce(bootstrap: str, codec: str | None) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, compression_type=codec)
    for number in range(RECORDS):
        producer.send("orders", key=b"customer-%d" % (number % 500), value=b"%0100d" % number, partition=0)
    producer.flush()
    producer.close()


def seconds(run: Callable[[str, int], int], place: str, expected: int) -> float:
    start = time.perf_counter()
    found = run(place, RECORDS)
    took = time.perf_counter() - start
    assert found == expected, (run.__name__, found)
    return took


def lines(function: Callable[..., object]) -> int:
    """The lines of a function's body."""
    return len(inspect.getsource(function).splitlines()) - 1


def kafka(*arguments: str) -> str:
    return subprocess.check_output([str(CHECKOUT / "scripts" / "kafka"), *arguments], text=True)


def main() -> int:
    board = Scoreboard()
    for codec in (None, "lz4"):
        with tempfile.TemporaryDirectory() as folder:
            answer = kafka("start", "--while", str(os.getpid()), folder)
            bootstrap = next(line.partition("=")[2] for line in answer.splitlines() if line.startswith("bootstrap"))
            store = ",".join(line.partition("=")[2] for line in answer.splitlines() if line.startswith("log.dir"))
            try:
                produce(bootstrap, codec)
                took: dict[str, list[float]] = {"kafkafs": [], "kafka-python": [], "columns": []}
                for _ in range(ROUNDS):
                    took["kafkafs"].append(seconds(by_kafkafs, store, RECORDS * 100))
                    took["kafka-python"].append(seconds(by_kafka_python, bootstrap, RECORDS * 100))
                    took["columns"].append(seconds(columns, store, RECORDS))
            finally:
                kafka("kill", folder)
        middle = {name: statistics.median(each) for name, each in took.items()}
        for name, target in (("kafkafs", TARGET), ("columns", None)):
            figures = f"{middle[name]:.3f} s, kafka-python {middle['kafka-python']:.3f} s"
            ratio = middle["kafka-python"] / middle[name]
            board.line(f"{RECORDS:,} records, {codec or 'plain'}: {name}", figures, ratio, target)
    figures = f"{lines(by_kafkafs)} lines, kafka-python {lines(by_kafka_python)} lines"
    board.line("what a user writes", figures, lines(by_kafka_python) / lines(by_kafkafs), None)
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
