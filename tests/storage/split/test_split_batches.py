"""The batches of splits: each once, wherever a log is cut, and with the times of their records."""

from __future__ import annotations

import random

import pytest
from memory_logs import DIRECTORY, LogOnMemory

from storage.clock import Clock
from storage.errors import CorruptBatchError
from storage.log.followed_log import FollowedLog
from storage.record.encoding import batches_of_rows
from storage.record.kernel.crc32c import crc32c
from storage.segment.names import Kind
from storage.split.batches import TIME_COLUMNS, BatchReader, BatchRun
from storage.split.splits import PartitionPlace, Split, splits_of

PLACE = PartitionPlace("/", "topic", 0)
CRC_AT, ATTRIBUTES_AT = 17, 21


def refuse(error: Exception) -> None:
    raise error


def filled(batches: int = 60) -> LogOnMemory:
    """A log of several segments with transactions in it."""
    lab, rng, sequence = LogOnMemory(), random.Random(1), 0
    for number in range(batches):
        rows = [(rng.randrange(1000), b"key", b"value" * 5, ())] * rng.randrange(1, 4)
        (batch,) = batches_of_rows(rows)
        lab.log.append_as_leader(batch, leader_epoch=1)
        if number % 10 == 5:
            lab.produce(b"in a transaction", sequence, transactional=True)
            lab.end_transaction(committed=number % 20 == 5)
            sequence += 1
    return lab


def planned(lab: LogOnMemory, start: int, size_bytes: int) -> list[Split]:
    log = FollowedLog(Clock(), lab.files.directory(DIRECTORY), lab.config, producer_expiration_ms=2**62)
    return splits_of(log, PLACE, start, log.view.end_offset, size_bytes=size_bytes, on_loss=refuse)


def read(lab: LogOnMemory, splits: list[Split], told: list[CorruptBatchError] | None = None) -> list[BatchRun]:
    reader = BatchReader(lab.files, Clock(), on_loss=refuse, on_damage=None if told is None else told.append)
    return [run for split in splits for run in reader.read(split)]


def placed(runs: list[BatchRun]) -> list[tuple[str, int, int]]:
    return [(run.log_name, batch.position, batch.last_offset) for run in runs for batch in run.batches]


def times(runs: list[BatchRun]) -> list[tuple[int, int]]:
    columns = [part.select(TIME_COLUMNS[:2]).columns for run in runs for part in run.times]
    return [
        row for offset, time in columns for row in zip(offset.to_pylist(), time.cast("int64").to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("size_bytes", [1, 500, 2**30])
def test_every_batch_passes_once(size_bytes: int) -> None:
    lab = filled()
    view = lab.log.view
    for start in (0, 1, 7, view.end_offset - 1, view.end_offset):
        runs = read(lab, planned(lab, start, size_bytes))
        due = [
            (segment.name(Kind.LOG), batch)
            for segment in view.segments
            for batch in segment.batches()
            if batch.last_offset >= start
        ]
        assert placed(runs) == [(name, batch.position, batch.last_offset) for name, batch in due]
        records = [record for _, batch in due if not batch.is_control for record in batch.records()]
        assert times(runs) == [(record.offset, record.timestamp) for record in records]


def test_a_batch_whose_records_do_not_decode_is_damage_and_those_around_it_pass() -> None:
    lab = filled()
    segment = lab.log.view.segments[1]
    before = list(segment.batches())
    victim = before[2]
    data = bytearray(victim.view(0, victim.size_bytes))
    data[ATTRIBUTES_AT + 1] |= 2  # snappy, which the records are not
    data[CRC_AT:ATTRIBUTES_AT] = crc32c(data[ATTRIBUTES_AT:]).to_bytes(4, "big")
    with lab.files.open_writing(str(segment.path(Kind.LOG))) as file:
        file.write_at(victim.position, [bytes(data)])
    splits = planned(lab, 0, 2**30)
    with pytest.raises(CorruptBatchError):
        read(lab, splits)
    told: list[CorruptBatchError] = []
    runs = read(lab, splits, told)
    assert [error.position for error in told] == [victim.position]
    passed = [batch[1] for batch in placed(runs) if batch[0] == segment.name(Kind.LOG)]
    assert passed == [batch.position for batch in before if batch.position != victim.position]
    assert all(offset not in range(victim.base_offset, victim.last_offset + 1) for offset, _ in times(runs))
