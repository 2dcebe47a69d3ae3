"""Logs with everything that compaction has rules for, made at random: as files of a directory that are to be recovered.

This module needs hypothesis, which only tests install.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from memory_logs import DIRECTORY, NOW_MS

from storage.segment.names import FileName, Kind
from storage.testing.codec import (
    ABORT,
    CODECS,
    COMMIT,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NONE,
    TRANSACTIONAL,
    ZSTD,
    OracleBatch,
    OracleEntry,
    OracleRecord,
    batch_of,
    encode_batch,
    encode_control_key,
    encode_end_transaction,
    encode_entry,
    entry_of,
    wrapper_of,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from storage.testing.memory_files import MemoryFiles

PRODUCERS = (7, 8, 9)
KEYS = (b"", b"a", b"b", b"c", b"d", b"e", b"f")
HOUR_MS = 3_600_000


@dataclass
class CompactableLog:
    """The batches of a log by the segments that they are in; the last segment is the active one."""

    segments: dict[int, list[OracleBatch | OracleEntry]] = field(default_factory=dict)

    def write(self, files: MemoryFiles) -> None:
        """Put the logs of the segments into a directory, each as if written an hour after the one before."""
        for number, (base_offset, units) in enumerate(self.segments.items()):
            with files.open_writing(f"{DIRECTORY}/{FileName(base_offset, Kind.LOG)}", create=True) as file:
                file.write_at(0, [encode_batch(u) if isinstance(u, OracleBatch) else encode_entry(u) for u in units])
                file.set_modified(NOW_MS - (len(self.segments) - number) * HOUR_MS)
                file.sync()
        files.sync_directory(DIRECTORY)


class _Making:
    """A log that grows by what is drawn."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.offset = 0
        self.log = CompactableLog({0: []})
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.open: set[int] = set()
        self.magic = draw(st.sampled_from([0, 1, 2, 2, 2]))

    def add(self, unit: OracleBatch | OracleEntry) -> None:
        units = list(self.log.segments.values())
        units[-1].append(unit)
        self.offset = unit.last_offset + 1 + self.draw(st.sampled_from([0, 0, 0, 0, 3]))

    def roll(self) -> None:
        self.log.segments.setdefault(self.offset, [])

    def records(self, *, has_headers: bool, limit: int = 6) -> tuple[OracleRecord, ...]:
        draw, offset, found = self.draw, self.offset, []
        for _ in range(draw(st.integers(1, limit))):
            found.append(
                OracleRecord(
                    offset,
                    NOW_MS + draw(st.integers(-1000, 1000)),
                    draw(st.sampled_from((*KEYS, None))),
                    draw(st.sampled_from([None, None, b"", b"v", b"value" * 20])),
                    (("h", b"x"), ("h", None)) if has_headers and draw(st.booleans()) else (),
                )
            )
            offset += draw(st.sampled_from([1, 1, 1, 2]))
        return tuple(found)

    def add_entry(self) -> None:
        codec = self.draw(st.sampled_from([each for each in CODECS if each != ZSTD]))
        is_append_time = self.magic == 1 and self.draw(st.booleans())
        if codec == NONE:
            (record,) = self.records(has_headers=False, limit=1)
            self.add(entry_of(record, self.magic, log_append_time=is_append_time))
            return
        inner = self.draw(st.sampled_from([self.magic, self.magic, 0]))
        records = self.records(has_headers=False)
        self.add(wrapper_of(records, self.magic, codec, inner_magic=inner, log_append_time=is_append_time))

    def add_batch(self, producer_id: int = -1, *, is_transactional: bool = False) -> None:
        draw = self.draw
        records = self.records(has_headers=True)
        attributes = draw(st.sampled_from(CODECS)) | draw(st.sampled_from([0, 0, 0, LOG_APPEND_TIME]))
        horizon_ms = draw(st.sampled_from([None, None, None, NOW_MS - HOUR_MS, NOW_MS, NOW_MS + HOUR_MS]))
        has_producer = producer_id >= 0
        batch = batch_of(
            records,
            base_offset=self.offset,
            attributes=attributes
            | (TRANSACTIONAL if is_transactional else 0)
            | (0 if horizon_ms is None else DELETE_HORIZON),
            base_timestamp=horizon_ms,
            producer_id=producer_id,
            producer_epoch=0 if has_producer else -1,
            base_sequence=self.sequences[producer_id] if has_producer else -1,
        )
        batch = replace(batch, last_offset_delta=batch.last_offset_delta + draw(st.sampled_from([0, 0, 0, 2])))
        if has_producer:
            self.sequences[producer_id] += batch.last_offset_delta + 1
        self.add(batch)

    def add_marker(self, producer_id: int) -> None:
        draw = self.draw
        key = encode_control_key(draw(st.sampled_from([ABORT, ABORT, COMMIT])))
        record = OracleRecord(self.offset, NOW_MS, key, encode_end_transaction(0))
        horizon_ms = draw(st.sampled_from([None, None, NOW_MS, NOW_MS + HOUR_MS]))
        self.add(
            batch_of(
                [record],
                attributes=TRANSACTIONAL | CONTROL | (0 if horizon_ms is None else DELETE_HORIZON),
                base_timestamp=horizon_ms,
                producer_id=producer_id,
                producer_epoch=0,
            )
        )

    def step(self) -> None:
        what = self.draw(st.sampled_from(["data", "data", "data", "producer", "transaction", "marker", "roll"]))
        if what == "roll":
            self.roll()
            self.magic = max(self.magic, self.draw(st.sampled_from([0, 1, 2])))
        elif self.magic < 2:
            self.add_entry()
        elif what == "data":
            self.add_batch()
        else:
            self.step_of(self.draw(st.sampled_from(PRODUCERS)), what)

    def step_of(self, producer_id: int, what: str) -> None:
        if what == "marker":
            self.add_marker(producer_id)
            self.open.discard(producer_id)
        elif what == "transaction" or producer_id in self.open:
            self.add_batch(producer_id, is_transactional=True)
            self.open.add(producer_id)
        else:
            self.add_batch(producer_id)


@st.composite
def compactable_logs(draw: DrawFn, *, max_steps: int = 30) -> CompactableLog:
    """Segments of all versions, the oldest first, all but the last closed."""
    making = _Making(draw)
    for _ in range(draw(st.integers(2, max_steps))):
        making.step()
    making.roll()
    return making.log
