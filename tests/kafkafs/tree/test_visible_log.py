"""What is visible of real logs, in both isolation levels, against a scan of every batch."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kafkafs.content.patience import Patience
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.visible_batches import SkimmedBatch
from storage.log.view import Isolation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from conftest import Views

    from kafkafs.tree.visible_batches import VisibleBatch

pytestmark = pytest.mark.golden

NAMES = (
    "kafka-2.2/kafka-2.2",
    "kafka-3.9/kafka-3.9",
    "kafka-3.9-killed/kafka-3.9-killed",
    "kafka-3.9-compaction/kafka-3.9-compaction-before",
    "kafka-3.9-compaction/kafka-3.9-compaction-after",
    "kafka-3.9-recovery/kafka-3.9-recovery/after",
)


@pytest.mark.parametrize("name", NAMES)
def test_everything_visible_is_found_and_nothing_else(views: Views, name: str) -> None:
    found = sum(check(views, directory, Isolation.UNCOMMITTED) for directory in views.partitions(name))
    assert found >= 500


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_committed_is_not_found(views: Views, name: str) -> None:
    """Where there are no transactions the isolation makes no difference, for which a few partitions will do."""
    directories = views.partitions(name)
    transactional = [directory for directory in directories if "txn" in directory.name]
    assert len(transactional) >= 4 or "compaction" in name
    for directory in {*transactional, *directories[::10]}:
        check(views, directory, Isolation.COMMITTED)


def check(views: Views, directory: Path, isolation: Isolation) -> int:
    rng = random.Random(directory.name)
    visible = views.follow(directory, TreeOptions(isolation=isolation)).visible()
    view = visible.view
    scanned = views.scan(directory, view, is_committed=isolation is Isolation.COMMITTED)
    expected = {record.offset: (record, each) for each in scanned for record in each.records}
    for offset in range(view.start_offset - 1, view.end_offset + 2):
        found = visible.find(offset)
        if offset not in expected:
            assert found is None
            continue
        record, each = expected[offset]
        assert found is not None
        assert found.record == record
        assert (found.batch.position, found.batch.crc) == (each.batch.position, each.batch.crc)
    offsets = list(expected)
    for start, end in ranges(view.start_offset, view.end_offset, rng):
        batches = list(visible.batches(start, end))
        records = [record for batch in batches for record in batch.records]
        assert records == [expected[offset][0] for offset in offsets if start <= offset < end]
        assert all(batch.records for batch in batches)
        skimmed = list(visible.skimmed(start, end, Patience(-1)))
        assert [offset for batch in skimmed for offset in told(batch)] == [record.offset for record in records]
    for count in {1, 2, 3, 63, 64, 65, len(offsets) // 2, len(offsets), len(offsets) + 1} - {0}:
        for patience in (None, Patience(60), Patience(-1)):
            assert visible.from_end(count, patience) == (offsets[-count] if count <= len(offsets) else None)
    assert visible.skipped == 0
    return len(offsets)


def told(batch: VisibleBatch | SkimmedBatch) -> Sequence[int]:
    return batch.offsets if isinstance(batch, SkimmedBatch) else [record.offset for record in batch.records]


def ranges(start: int, end: int, rng: random.Random) -> list[tuple[int, int]]:
    drawn = (sorted((rng.randint(start, end), rng.randint(start, end))) for _ in range(20))
    return [(start, end), (0, 2**62), (start, start), (end, start), *((low, high) for low, high in drawn)]


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("name", NAMES)
def test_times_lead_to_the_first_visible_record(views: Views, name: str, isolation: Isolation) -> None:
    """Where Kafka's lookup leads to is checked elsewhere against a scan; here what becomes of that is."""
    for directory in views.partitions(name)[:: 1 if isolation is Isolation.UNCOMMITTED else 4]:
        visible = views.follow(directory, TreeOptions(isolation=isolation)).visible()
        offsets = [record.offset for record in visible.records(0, 2**62)]
        view = visible.view
        times = {record.timestamp for batch in view.batches(view.start_offset) for record in batch.records()}
        for time_ms in sorted({time_ms + nudge for time_ms in times if time_ms > 0 for nudge in (-1, 0, 1)})[::11]:
            timed = view.find_timestamp(time_ms)
            expected = None if timed is None else next((each for each in offsets if each >= timed.offset), None)
            assert visible.find_timestamp(time_ms) == expected
