"""The part of a log below any offset holds the batches that end there or before, and no byte of another."""

from __future__ import annotations

from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from storage.log.prefix import LogPrefix
from storage.segment.names import Kind
from storage.segment.scan import LogScan


def test_a_prefix_has_the_batches_below_its_bound() -> None:
    memory = LogOnMemory()
    log = memory.log
    for number in range(60):
        log.append_as_leader(sent([(NOW_MS, b"%d" % number * 40)] * (number % 3 + 1)), leader_epoch=0)
    view = log.view
    assert len(view.segments) > 2
    batches = list(view.batches(view.start_offset))
    for bound in range(view.end_offset + 1):
        prefix = LogPrefix.of(view, bound)
        expected = [batch.base_offset for batch in batches if batch.last_offset < bound]
        assert prefix.end_offset == max(
            (batch.last_offset + 1 for batch in batches if batch.last_offset < bound), default=0
        )
        assert prefix.damage is None
        assert [part.is_last for part in prefix.segments] == [False] * (len(prefix.segments) - 1) + [True]
        found = []
        for part in prefix.segments:
            with memory.files.open_reading(f"{DIRECTORY}/{part.segment.name(Kind.LOG)}") as file:
                scan = LogScan(file, end=part.size_bytes)
                found += [batch.base_offset for batch in scan]
                assert scan.position == part.size_bytes
        assert found == expected
