"""Records whose text takes more memory than one is given, alone and among others."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, LogOnMemory, sent

from kafkafs.locator.formats import Format
from kafkafs.tree.errors import TooLargeError
from kafkafs.tree.options import Damage, TreeOptions
from storage.budget import MEMORY
from storage.errors import DecompressedTooLargeError
from storage.record.encoding import BatchForm, batches_of_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Views

LARGE_BYTES = 34 << 20


def log_with_a_large_record() -> LogOnMemory:
    lab = LogOnMemory({"max.message.bytes": "80000000"})
    (large,) = batches_of_rows([(NOW_MS, None, bytes(LARGE_BYTES), ())], form=BatchForm(codec=4), max_bytes=80 << 20)
    for data in (sent(b"before"), large, sent(b"after")):
        lab.log.append_as_leader(data)
    return lab


@pytest.mark.parametrize("form", [Format.JSON, Format.HEX])
def test_a_record_that_takes_too_much_memory_ends_a_range_or_is_passed_over(views: Views, form: Format) -> None:
    lab = log_with_a_large_record()
    reading = views.node(views.memory(lab), f"all{form}").open()
    before = views.read(views.memory(lab), f"0..1{form}")
    assert bytes(reading.read(0, len(before))) == before
    with pytest.raises(TooLargeError, match=r"making 1\.\w+ would take about"):
        reading.read(len(before), 1)
    reading.close()
    skipping = views.memory(lab, TreeOptions(damage=Damage.SKIP))
    assert views.read(skipping, f"all{form}") == before + views.read(skipping, f"2..3{form}")


def test_the_stored_batch_of_a_large_record_is_small(views: Views) -> None:
    lab = log_with_a_large_record()
    batches = [batch for segment in lab.log.view.segments for batch in segment.batches()]
    assert views.read(views.memory(lab), "1.batch") == bytes(batches[1].view(0, batches[1].size_bytes))
    with pytest.raises(DecompressedTooLargeError, match=r"making 1\.jsonl would take about"):
        views.read(views.memory(lab), "1.jsonl")


@pytest.fixture
def without_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_gc")
def test_a_range_that_fails_keeps_no_decoded_batch(views: Views) -> None:
    source = views.memory(log_with_a_large_record())
    left_bytes = MEMORY.left_bytes
    for _ in range(3):
        node = views.node(source, "all.hex")
        node.attributes()
        reading = node.open()
        with pytest.raises(TooLargeError):
            reading.read(1000, 1)
        reading.close()
    assert left_bytes - MEMORY.left_bytes <= 2 * LARGE_BYTES  # what the cache of batches keeps
