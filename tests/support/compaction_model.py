"""Compaction as simple as it can be said, over what the oracle codec decodes: what the cleaner is compared with.

The model knows no files and no limits but that of the map; which transactions were aborted it finds out by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from storage.testing.codec import (
    ABORT,
    CODEC_MASK,
    DELETE_HORIZON,
    NONE,
    OracleBatch,
    OracleEntry,
    decode_control_key,
    wrapper_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    from storage.testing.codec import OracleRecord

    Unit: TypeAlias = OracleBatch | OracleEntry
    LastRecord: TypeAlias = tuple[int | None, int]
    """A producer's last data offset, if it has any, and its epoch."""


@dataclass(frozen=True)
class CompactedSegment:
    """A segment as the model takes it."""

    base_offset: int
    modified_ms: int
    units: tuple[Unit, ...]


@dataclass
class CompactionModel:
    """One run over a log, all of whose segments are given; it may be compacted before `end_offset`."""

    segments: Sequence[CompactedSegment]
    first_dirty_offset: int
    end_offset: int
    keys_max: int
    now_ms: int
    delete_retention_ms: int
    producers: Mapping[int, LastRecord]
    latest: dict[bytes, int] = field(default_factory=dict)
    map_end: int = -1

    def __post_init__(self) -> None:
        self.aborted, self.markers = _transactions(self.segments)
        self._learn()

    def kept(self) -> list[Unit]:
        """Return the records that compaction keeps of the segments, as the oracle decodes them."""
        clean = [segment for segment in self.segments if segment.base_offset < self.first_dirty_offset]
        horizon_ms = clean[-1].modified_ms - self.delete_retention_ms if clean else 0
        found = []
        for segment in self.segments:
            if segment.base_offset <= self.map_end and segment.base_offset < self.end_offset:
                for unit in segment.units:
                    left = (
                        self._left_of_batch(unit)
                        if isinstance(unit, OracleBatch)
                        else self._left_of_entry(unit, keeps_tombstones=segment.modified_ms > horizon_ms)
                    )
                    if left is not None:
                        found.append(comparable(left))
        return found

    def _learn(self) -> None:
        following = [after.base_offset for _, after in pairwise(self.segments)]
        for segment, next_base in zip(self.segments, [*following, self.end_offset], strict=True):
            if segment.base_offset >= self.end_offset or next_base <= self.first_dirty_offset:
                continue
            for unit in segment.units:
                if not self._learn_from(unit):
                    return
            self.map_end = min(next_base, self.end_offset) - 1

    def _learn_from(self, unit: Unit) -> bool:
        if not self._has_no_keys(unit):
            for record in unit.records:
                if record.key is not None and record.offset >= self.first_dirty_offset:
                    if len(self.latest) >= self.keys_max:
                        return False
                    self.latest[record.key] = self.map_end = record.offset
        if unit.last_offset >= self.first_dirty_offset:
            self.map_end = unit.last_offset
        return True

    def _has_no_keys(self, unit: Unit) -> bool:
        return isinstance(unit, OracleBatch) and (unit.is_control or unit.base_offset in self.aborted)

    def _left_of_batch(self, batch: OracleBatch) -> OracleBatch | None:
        horizon_ms = batch.delete_horizon_ms
        is_over = horizon_ms is not None and horizon_ms <= self.now_ms
        is_empty_transaction = batch.is_control and self.markers.get(batch.base_offset, not batch.records)
        if batch.base_offset in self.aborted or (is_empty_transaction and is_over):
            records: list[OracleRecord] = []
        elif batch.is_control:
            records = list(batch.records)
        else:
            records = [each for each in batch.records if self._stays(each, keeps_tombstones=not is_over)]
        if not records:
            return _emptied(batch) if self._must_stay(batch) else None
        has_tombstone = any(record.value is None for record in records)
        if horizon_ms is None and (has_tombstone or is_empty_transaction):
            horizon_ms = self.now_ms + self.delete_retention_ms
        elif len(records) == len(batch.records):
            return batch
        return replace(
            batch,
            attributes=batch.attributes | (0 if horizon_ms is None else DELETE_HORIZON),
            base_timestamp=records[0].timestamp if horizon_ms is None else horizon_ms,
            max_timestamp=batch.max_timestamp
            if batch.is_log_append_time
            else max(record.timestamp for record in records),
            record_count=len(records),
            records=tuple(records),
        )

    def _left_of_entry(self, entry: OracleEntry, *, keeps_tombstones: bool) -> OracleEntry | None:
        records = [each for each in entry.records if self._stays(each, keeps_tombstones=keeps_tombstones)]
        if not records and entry.last_offset + 1 == self.end_offset:
            records = [entry.records[-1]]
        if not records:
            return None
        if entry.codec == NONE:
            return entry
        return wrapper_of(records, entry.magic, entry.codec, log_append_time=entry.is_log_append_time)

    def _stays(self, record: OracleRecord, *, keeps_tombstones: bool) -> bool:
        if record.offset > self.map_end:
            return True
        if record.key is None or record.offset < self.latest.get(record.key, -1):
            return False
        return record.value is not None or keeps_tombstones

    def _must_stay(self, batch: OracleBatch) -> bool:
        if batch.last_offset + 1 == self.end_offset:
            return True
        if batch.producer_id not in self.producers:
            return False
        last_offset, epoch = self.producers[batch.producer_id]
        if last_offset is None:
            return batch.is_control and batch.producer_epoch == epoch
        return batch.last_offset == last_offset


def comparable(unit: Unit) -> Unit:
    """The unit without what a codec may write in several ways."""
    return unit if isinstance(unit, OracleBatch) or unit.codec == NONE else replace(unit, value=b"")


def visible(segments: Sequence[CompactedSegment], *, committed: bool) -> Iterator[OracleRecord]:
    """The records that a consumer is given, up to the first transaction that is open if it wants committed ones."""
    aborted, _ = _transactions(segments)
    units = [unit for segment in segments for unit in segment.units]
    bound = min(_open_since(units), default=None) if committed else None
    for unit in units:
        if isinstance(unit, OracleBatch) and (unit.is_control or (committed and unit.base_offset in aborted)):
            continue
        if bound is None or unit.last_offset < bound:
            yield from unit.records


def _transactions(segments: Sequence[CompactedSegment]) -> tuple[set[int], dict[int, bool]]:
    """Find where aborted batches begin, and for each marker if it ends a transaction without a batch."""
    aborted: set[int] = set()
    markers: dict[int, bool] = {}
    open_batches: dict[int, list[int]] = {}
    for unit in (unit for segment in segments for unit in segment.units):
        if not isinstance(unit, OracleBatch) or not unit.is_transactional:
            continue
        if not unit.is_control:
            open_batches.setdefault(unit.producer_id, []).append(unit.base_offset)
        elif unit.records:
            ended = open_batches.pop(unit.producer_id, [])
            markers[unit.base_offset] = not ended
            if decode_control_key(unit.records[0].key)[1] == ABORT:
                aborted.update(ended)
    return aborted, markers


def _open_since(units: Sequence[Unit]) -> list[int]:
    """Find where transactions begin that no marker ends."""
    begun: dict[int, int] = {}
    for unit in units:
        if isinstance(unit, OracleBatch) and unit.is_transactional:
            if not unit.is_control:
                begun.setdefault(unit.producer_id, unit.base_offset)
            elif unit.records:
                begun.pop(unit.producer_id, None)
    return list(begun.values())


def _emptied(batch: OracleBatch) -> OracleBatch:
    return replace(
        batch,
        attributes=batch.attributes & ~(CODEC_MASK | DELETE_HORIZON),
        base_timestamp=-1,
        record_count=0,
        records=(),
    )
