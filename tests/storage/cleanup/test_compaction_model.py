"""What compaction keeps of logs made at random: exactly what the model says, and what every consumer may rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from compactable_logs import CompactableLog, compactable_logs
from compacting import Compacting, segments_of
from compaction_model import comparable
from consuming import consumed
from hypothesis import event, given
from hypothesis import strategies as st
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory
from soundness import damages

from storage.log.view import Isolation
from storage.testing.codec import OracleBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from consuming import ConsumedRecord

    from storage.log.log import Log
    from storage.testing.codec import OracleEntry

pytestmark = pytest.mark.property

SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "600",
    "segment.index.bytes": "1200",
    "index.interval.bytes": "64",
    "delete.retention.ms": "7200000",
}


def opened(made: CompactableLog) -> LogOnMemory:
    on_memory = LogOnMemory(SETTINGS)
    on_memory.log.close()
    for name in on_memory.files.names(DIRECTORY):
        on_memory.files.remove(f"{DIRECTORY}/{name}")
    made.write(on_memory.files)
    on_memory.recover(allows_offset_gaps=True)
    on_memory.open()
    return on_memory


def latest(records: Iterable[ConsumedRecord]) -> dict[bytes, bytes]:
    """What somebody who has read all of it knows in the end."""
    known = {record.key: record.value for record in records if record.key is not None}
    return {key: value for key, value in known.items() if value is not None}


def units_of(log: Log) -> list[OracleBatch | OracleEntry]:
    return [comparable(unit) for segment in segments_of(log) for unit in segment.units]


def check_kept(
    before: list[ConsumedRecord], after: list[ConsumedRecord], units: Iterable[object], map_end: int
) -> None:
    """Check what the model is not needed for: what may be missing, and what must not be."""
    assert latest(after) == latest(before)
    left = {record.offset: record for record in after}
    assert left.items() <= {record.offset: record for record in before}.items(), "nothing comes from nowhere"
    last_of = {record.key: record.offset for record in before if record.offset <= map_end}
    dated = {
        record.offset: unit.delete_horizon_ms
        for unit in units
        if isinstance(unit, OracleBatch)
        for record in unit.records
    }
    for record in before:
        if record.offset not in left:
            assert record.offset <= map_end, "nothing is known of what lies after the map's end"
            is_superseded = record.offset < last_of[record.key]
            horizon_ms = dated.get(record.offset, NOW_MS)
            is_expired = record.value is None and horizon_ms is not None and horizon_ms <= NOW_MS
            assert record.key is None or is_superseded or is_expired


@given(made=compactable_logs(), keys_max=st.sampled_from([1, 2, 3, 5, 100]), data=st.data())
def test_a_run_keeps_what_it_must_and_nothing_else(made: CompactableLog, keys_max: int, data: st.DataObject) -> None:
    on_memory = opened(made)
    log, files = on_memory.log, on_memory.files
    compacting = Compacting(on_memory.clock, keys_max=keys_max, buffer_bytes=data.draw(st.sampled_from([1, 300])))
    end_offset = log.view.end_offset
    checkpoint = data.draw(st.one_of(st.none(), st.integers(0, end_offset)))
    plan = compacting.plan(log, checkpoint)
    event(f"{plan.verdict}, stopped by {plan.boundary}")
    if not plan.is_applicable:
        return
    model = compacting.model(log, plan)
    units, kept = units_of(log), model.kept()
    seen = {isolation: list(consumed(log, isolation)) for isolation in Isolation}
    stable_offset = log.view.last_stable_offset
    estimate = compacting.estimate(log, plan)
    report = compacting.compact(log, plan)
    event(f"the map was {'full' if report.is_map_full else 'large enough'}")
    assert report.first_dirty_offset == model.map_end + 1

    after = units_of(log)
    assert after[: len(kept)] == kept
    untouched = [unit for unit in units if unit.base_offset >= log.view.segments[-1].base_offset]
    assert [unit for unit in after if unit.base_offset >= log.view.segments[-1].base_offset] == untouched
    if plan.first_dirty_offset == 0:
        # Otherwise what lies before the checkpoint should have been compacted, and was not.
        check_kept(seen[Isolation.COMMITTED], list(consumed(log, Isolation.COMMITTED)), units, model.map_end)
    assert (log.view.end_offset, log.view.last_stable_offset) == (end_offset, stable_offset)
    assert damages(on_memory, 0) == []
    assert (estimate.records, estimate.after_bytes, estimate.segments_after) == (
        report.records,
        report.after_bytes,
        report.segments_after,
    )

    for path in compacting.deleted:
        files.remove(path)
    log.close()
    reopened = on_memory.open()
    assert units_of(reopened) == after
    assert list(consumed(reopened, Isolation.COMMITTED)) == list(consumed(log, Isolation.COMMITTED))
    assert reopened.producers.states() == log.producers.states()


@given(made=compactable_logs(), keys_max=st.sampled_from([1, 3, 100]))
def test_rounds_come_to_an_end(made: CompactableLog, keys_max: int) -> None:
    """Each round ends, and once nothing changes any more, a round over all of it again changes nothing."""
    on_memory = opened(made)
    log = on_memory.log
    compacting = Compacting(on_memory.clock, keys_max=keys_max)
    before, known = units_of(log), latest(consumed(log, Isolation.COMMITTED))
    for _ in range(len(made.segments) + 3):
        checkpoint = None
        while (plan := compacting.plan(log, checkpoint)).is_applicable:
            checkpoint = compacting.compact(log, plan).first_dirty_offset
            assert checkpoint > plan.first_dirty_offset
        assert latest(consumed(log, Isolation.COMMITTED)) == known
        if units_of(log) == before:
            return
        before = units_of(log)
    pytest.fail("every round changes something")
