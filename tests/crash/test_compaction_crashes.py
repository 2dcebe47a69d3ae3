"""Compaction is cut at every step: what must stay is there, what was replaced stays so, and the next run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from compacted_logs import CompactedLog
from compacting import segments_of
from compaction_model import comparable
from memory_logs import DIRECTORY
from soundness import damages

from storage.cleanup.cleaned_segments import remove_cleaned
from storage.log.recover.report import Repair
from storage.log.view import Isolation
from storage.segment.names import FileSuffix

if TYPE_CHECKING:
    from consuming import ConsumedRecord

    from storage.testing.memory_files import MemoryFiles

pytestmark = pytest.mark.crash

MISSING = "it was missing"
"""The reason for which recovery builds a missing index."""


def latest(records: dict[int, ConsumedRecord]) -> dict[bytes | None, bytes]:
    known = {record.key: record.value for _, record in sorted(records.items())}
    return {key: value for key, value in known.items() if value is not None}


def check(log: CompactedLog, before: CompactedLog, after: CompactedLog) -> None:
    """Check that no record that stays is missing, and that none is new."""
    assert log.log.view.end_offset == before.log.view.end_offset
    assert log.log.view.last_stable_offset == before.log.view.last_stable_offset
    for isolation in Isolation:
        found, whole = log.records(isolation), before.records(isolation)
        assert after.records(isolation).items() <= found.items() <= whole.items()
    committed = Isolation.COMMITTED
    assert latest(log.records(committed)) == latest(before.records(committed)) == latest(after.records(committed))
    known = {state.producer_id: (state.epoch, state.last_sequence) for state in log.log.producers.states()}
    assert known == {state.producer_id: (state.epoch, state.last_sequence) for state in before.log.producers.states()}
    assert damages(log, 0) == []


def leftovers(files: MemoryFiles) -> list[str]:
    return [name for name in files.names(DIRECTORY) if name.endswith((FileSuffix.CLEANED, FileSuffix.SWAP))]


@pytest.mark.parametrize("keys_max", [3, 100])
def test_compaction_loses_nothing_wherever_it_is_cut(crashes, keys_max: int) -> None:
    times = 4 if crashes.is_proof else 2
    before, after = CompactedLog.made(keys_max, times), CompactedLog.made(keys_max, times)
    after.compact_twice()
    units = [comparable(unit) for segment in segments_of(after.log) for unit in segment.units]
    assert sum(report.freed_bytes for report in after.done) > 300 * times
    check(after, before, after)
    ends = set()
    for log, later in crashes.of(lambda: CompactedLog.made(keys_max, times), CompactedLog.compact_twice):
        done = len(log.done)
        if not later.is_dead and not log.log.is_poisoned:
            # The disk refused something, and everything goes on with the log as it is.
            check(log, before, after)
            remove_cleaned(log.files.directory(DIRECTORY))
            assert leftovers(log.files) == []
            log.compact_twice()
            check(log, before, after)
        for files, _ in later:
            log.open_after_crash(files, recovery_point=log.recovery_point)
            # Indexes and snapshots of compacted segments say what those segments have now, and nothing else changes.
            steps = log.recover().steps
            assert {step.repair for step in steps} <= {Repair.ADDED, Repair.REBUILT, Repair.TRIMMED}, steps
            assert not [step for step in steps if step.lost_bytes or step.reason == MISSING], steps
            assert leftovers(log.files) == []
            check(log, before, after)
            left = [comparable(unit) for segment in segments_of(log.log) for unit in segment.units]
            assert done < len(after.done) or left == units
            ends.add(len(left))
            log.compact_twice()
            check(log, before, after)
    assert len(ends) > 2
