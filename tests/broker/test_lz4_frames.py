"""Which LZ4 frames the real Kafka reads: those that are read here, but for the differences that are told here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from lz4_frames import FRAMES, READ, READ_BY_KAFKA_ALONE, READ_IN_MAGIC_0
from real_brokers import releases

from storage.testing.codec import (
    LZ4,
    OracleRecord,
    batch_of,
    encode_entry,
    encode_records,
    entry_of,
    seal_batch,
    wrapper_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

VALUE = b"text that repeats, text that repeats, and what follows it" * 7
RECORD = OracleRecord(0, 0, None, VALUE)


def stored(name: str, magic: int) -> bytes:
    """Return a batch of one record, whose section is in the frame of that name."""
    if magic == 2:
        batch = batch_of([RECORD], attributes=LZ4)
        return seal_batch(batch, FRAMES[name](encode_records(batch)))
    section = encode_entry(entry_of(RECORD, magic))
    return encode_entry(replace(wrapper_of([RECORD], magic, LZ4), value=FRAMES[name](section)))


@pytest.mark.parametrize("version", releases("4"))
@pytest.mark.parametrize("magic", [2, 0])
def test_kafka_reads_what_is_read_here(real_kafka: RealKafka, tmp_path: Path, version: str, magic: int) -> None:
    log = tmp_path / f"{0:020}.log"
    read = set()
    for name in FRAMES:
        log.write_bytes(stored(name, magic))
        try:
            dumped = real_kafka.dump(log, version=version)
        except real_kafka.Error:
            continue
        if VALUE.decode() in dumped:
            read.add(name)
    assert read == READ | READ_BY_KAFKA_ALONE | ({READ_IN_MAGIC_0} if magic == 0 else set())
