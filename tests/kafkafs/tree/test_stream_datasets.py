"""The streams of every partition that real brokers wrote equal a plain scan, for reads of any size."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from kafkafs.content import SizeCache
from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import View
from kafkafs.render.envelope import Envelope
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.stream_file import StreamFile
from storage.files import Files
from storage.log.view import Isolation
from storage.record import assign_offset, batches_of_rows

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Views

MIB = 1 << 20
WHOLE = range(6)


@pytest.mark.golden
@pytest.mark.parametrize("number", WHOLE)
def test_streams_are_what_a_plain_scan_finds(views: Views, number: int) -> None:
    rng = random.Random(number)
    checked = 0
    for directory in views.partitions(views.whole[number]):
        for isolation in Isolation:
            source = views.follow(directory, TreeOptions(isolation=isolation))
            visible = source.visible()
            scanned = views.scan(directory, visible.view, is_committed=isolation is Isolation.COMMITTED)
            records = [record for each in scanned for record in each.records]
            line = Envelope(source.topic, source.partition).line
            for form, expected in (
                (View.VALUES, b"".join((record.value or b"") + b"\n" for record in records)),
                (View.KEYS, b"".join((record.key or b"") + b"\n" for record in records)),
                (View.RECORDS, b"".join(map(line, records))),
            ):
                node = StreamFile(PartitionFilePath(source.path, form), source, SizeCache(Files(), None))
                reading = node.open()
                found = bytearray()
                while part := bytes(reading.read(len(found), rng.choice([13, 4096, 128 << 10]))):
                    found += part
                assert bytes(found) == expected, (directory, form, isolation)
                assert node.attributes().size_bytes == len(expected)
                for _ in range(3):
                    at = rng.randrange(len(expected) + 1)
                    assert bytes(reading.read(at, 5000)) == expected[at : at + 5000]
                reading.close()
                checked += 1
    assert checked > 0


def test_memory_is_bounded_for_every_log(views: Views, tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (batch,) = batches_of_rows([(number, b"key", b"v" * 1000, ()) for number in range(1000)], max_bytes=2 * MIB)
    placed, offset = bytearray(batch), 0
    with (directory / f"{0:020d}.log").open("wb") as file:
        while file.tell() < 256 * MIB:
            assign_offset(placed, base_offset=offset, leader_epoch=0)
            file.write(placed)
            offset += 1000
    source = views.follow(directory, TreeOptions(counted_bytes_max=0))
    sizes = SizeCache(Files(), None)
    node = StreamFile(PartitionFilePath(source.path, View.VALUES), source, sizes)
    tracemalloc.start()
    try:
        node.warm(lambda: False)
        reading = node.open()
        for position in range(0, offset * 1001, 128 << 10):
            assert len(memoryview(reading.read(position, 128 << 10))) == min(128 << 10, offset * 1001 - position)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reading.size_bytes() == offset * 1001
    assert peak < 12 * MIB
