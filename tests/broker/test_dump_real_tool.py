"""Our dump beside that of the real tool, for logs that no broker has written but could have."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given, settings

from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.text import TextForm
from storage.files import Files
from storage.testing.batch_codec import OracleRecord, batch_of, encode_batch
from storage.testing.strategies import encoded, logs

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

LOGS_MAX = 200
# Bytes that begin, continue or break characters in every way there is.
TELLING_BYTES = bytes.fromhex("00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5f8ff")


def adversarial_text(count: int) -> bytes:
    """A log whose keys and values are bytes that mostly are no text."""
    rng = random.Random(11)
    records = [
        OracleRecord(
            offset=offset, key=bytes(rng.choices(TELLING_BYTES, k=offset % 7)), value=rng.randbytes(offset % 90)
        )
        for offset in range(count)
    ]
    return encode_batch(batch_of(records))


def generated_logs() -> list[bytes]:
    found: list[bytes] = []

    @settings(max_examples=LOGS_MAX, derandomize=True, database=None)
    @given(logs())
    def collect(units: tuple[object, ...]) -> None:
        found.append(b"".join(map(encoded, units)))

    collect()
    return found


def ours(paths: list[Path]) -> str:
    lines = []
    for path in paths:
        with Files().open_reading(path) as file:
            lines += [line.decode() for run in LogDump(file, TextForm(), Selection()) for line in run]
    return "".join(f"{line}\n" for line in lines)


def test_logs_of_every_kind_are_printed_as_by_the_real_tool(real_kafka: RealKafka, tmp_path: Path) -> None:
    paths = []
    for number, data in enumerate([adversarial_text(5000), *generated_logs()]):
        paths.append(tmp_path / str(number) / "00000000000000000000.log")
        paths[-1].parent.mkdir()
        paths[-1].write_bytes(data)
    assert real_kafka.dump(*paths) == ours(paths)
