"""An explanation as lines for people, and as a row for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkafs.locator.times import Instant
from storage.offset_text import offsets_text
from storage.record import NO_PRODUCER_ID, NO_TIMESTAMP, RecordBatch
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.find.explanation import Explanation, Neighbour

COLUMNS: Final = (
    *("topic", "partition", "offset", "segment", "position", "bytes", "baseOffset", "lastOffset", "records", "codec"),
    *("recordsBytes", "timestamp", "timestampType", "keyBytes", "valueBytes", "headers", "producerId"),
    *("producerEpoch", "sequence", "isTransactional", "isControl", "transaction", "control", "leaderEpoch"),
    *("leaderEpochOffset", "leaderEpochTimestamp", "crc", "damage", "retention", "retentionTimestamp", "compaction"),
    *("dd", "dump"),
)
DETAILS: Final = (
    *("path", "segmentBytes", "isActive", "magic", "indexEntry", "timeIndexEntry", "previous", "next"),
    *("logStartOffset", "logEndOffset"),
)
"""What only JSON has room for."""


def why_nothing_is_there(offset: int, end_offset: int) -> str:
    """Return the sentence about an offset that no batch has, nor one after it, with where the log ends."""
    said = f"the log has no batch at offset {offset} or after it"
    if offset < end_offset:
        return said
    return f"{said}: it ends at offset {end_offset}, so that none was written there yet, or it was truncated"


def row_of_explanation(found: Explanation) -> dict[str, Any]:
    """Return the fields by the names of the envelope and of the other commands."""
    batch, record = found.batch, found.record
    epoch, epoch_offset, epoch_ms = found.epoch or (batch.leader_epoch, None, None)
    due_ms = _retention_ms(found)
    return {
        "topic": found.partition.topic,
        "partition": found.partition.number,
        "offset": found.offset,
        "segment": found.segment.name(Kind.LOG),
        "position": batch.position,
        "bytes": batch.size_bytes,
        "baseOffset": batch.read_first_offset(),
        "lastOffset": batch.last_offset,
        "records": found.count,
        "codec": batch.codec.label,
        "recordsBytes": found.records_bytes,
        "timestamp": None if record is None else record.timestamp,
        "timestampType": batch.timestamp_type.label,
        "keyBytes": None if record is None or record.key_size < 0 else record.key_size,
        "valueBytes": None if record is None or record.value_size < 0 else record.value_size,
        "headers": None if record is None else record.header_count,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "sequence": None if record is None else record.sequence,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "transaction": found.transaction,
        "control": found.control,
        "leaderEpoch": epoch,
        "leaderEpochOffset": epoch_offset,
        "leaderEpochTimestamp": epoch_ms,
        "crc": batch.crc,
        "damage": found.damage,
        "retention": _retention(found),
        "retentionTimestamp": due_ms,
        "compaction": _compaction(found),
        "dd": found.dd,
        "dump": found.dump,
        "path": found.path,
        "segmentBytes": found.segment_end,
        "isActive": found.is_active,
        "magic": batch.magic,
        "indexEntry": _entry(found.index_entry, "offset", "position"),
        "timeIndexEntry": _entry(found.time_entry, "timestamp", "offset"),
        "previous": _neighbour(found.previous),
        "next": _neighbour(found.following),
        "logStartOffset": found.log_start,
        "logEndOffset": found.log_end,
    }


def lines_of_explanation(found: Explanation) -> Iterator[str]:
    """Yield a line for each fact: its name and its text."""
    for name, text in _facts(found):
        yield f"{name:<12}{text}"


def _facts(found: Explanation) -> Iterator[tuple[str, str]]:
    batch, partition = found.batch, found.partition
    yield "record", f"{partition.topic}/{partition.number} offset {found.offset}: {_record(found)}"
    kind = "the active segment" if found.is_active else "a closed segment"
    yield "segment", f"{found.path}, {kind} of {found.segment_end} bytes from offset {found.segment.base_offset} on"
    yield "index", _index(found)
    yield "position", f"{batch.position} up to {found.end_position}, {batch.size_bytes} bytes"
    yield "batch", _batch(found)
    yield "checksum", f"{batch.crc:08x}, " + ("which is right" if found.damage is None else f"but {found.damage}")
    yield "producer", _producer(found)
    if batch.is_transactional:
        yield "transaction", found.transaction or "unknown, because the batch does not decode"
    yield "leader", _leader(found)
    yield "retention", _retention(found) or "none: the directory is no topic's partition"
    due_ms = _retention_ms(found)
    if due_ms is not None:
        yield "", f"retention.ms lets the segment go after {_time(due_ms)}, if all before it have gone"
    yield "compaction", _compaction(found) or "none: the directory is no topic's partition"
    yield "before", _neighbour_text(found.previous)
    yield "after", _neighbour_text(found.following)
    yield "bytes", found.dd
    yield "dump", found.dump


def _record(found: Explanation) -> str:
    record = found.record
    if found.offset < found.log_start:
        why = "as after retention or kafka-delete-records"
        if found.partition.log.config.remote_storage_enable:
            why = "and remote storage may have what is before it"
        return f"the log starts at offset {found.log_start}, {why}; {_shown_batch(found)} is shown"
    if found.damage is not None:
        return "its batch does not decode"
    if found.batch.is_control:
        return f"no record, but a control record ({found.control})" if found.control else "no record: a control batch"
    if record is None:
        return f"no record has it, as after a compaction; {_shown_batch(found)} is shown"
    key = "no key" if record.key_size < 0 else f"a key of {record.key_size} bytes"
    value = "a null value" if record.value_size < 0 else f"a value of {record.value_size} bytes"
    headers = f"{record.header_count} {'header' if record.header_count == 1 else 'headers'}"
    return f"{_time(record.timestamp)} ({found.batch.timestamp_type.label}), {key}, {value}, {headers}"


def _shown_batch(found: Explanation) -> str:
    return "its batch" if found.batch.read_first_offset() <= found.offset else "the next batch"


def _index(found: Explanation) -> str:
    by_offset = "the segment's beginning"
    if found.index_entry is not None:
        by_offset = "the entry of offset {} at position {}".format(*found.index_entry)
    by_time = "the segment's beginning"
    if found.time_entry is not None:
        by_time = f"the entry of {_time(found.time_entry[0])} at offset {found.time_entry[1]}"
    return f"by offset from {by_offset}, by time from {by_time}"


def _batch(found: Explanation) -> str:
    batch = found.batch
    number = "an unknown number of records" if found.count is None else f"{found.count} records"
    if found.count == 1:
        number = "1 record"
    size = "" if found.records_bytes is None else f", {found.records_bytes} bytes of records"
    offsets = offsets_text(batch.read_first_offset(), batch.last_offset + 1)
    newest = f"the newest of {_time(batch.max_timestamp)}"
    return f"version {batch.magic}, {offsets}, {number}, {batch.codec.label}{size}, {newest}"


def _producer(found: Explanation) -> str:
    batch = found.batch
    if batch.producer_id == NO_PRODUCER_ID:
        return "one without an id"
    if batch.is_control:
        return f"{batch.producer_id} with epoch {batch.producer_epoch}, whose transaction a coordinator ended here"
    sequence = "" if found.record is None else f"; the record's is {found.record.sequence}"
    sequences = f"sequence numbers {batch.base_sequence} to {batch.last_sequence}{sequence}"
    return f"{batch.producer_id} with epoch {batch.producer_epoch}, {sequences}"


def _leader(found: Explanation) -> str:
    if not isinstance(found.batch, RecordBatch) or found.batch.leader_epoch < 0:
        return "the batch has no leader epoch"
    if found.epoch is None:
        return f"epoch {found.batch.leader_epoch}, which leader-epoch-checkpoint does not have"
    epoch, offset, began_ms = found.epoch
    began = "" if began_ms is None else f", with a batch of {_time(began_ms)}"
    return f"epoch {epoch}, which began at offset {offset}{began}"


def _retention(found: Explanation) -> str | None:
    plan = found.retention
    if plan is None:
        return None
    of_segment = next((each for each in plan.segments if each.base_offset == found.segment.base_offset), None)
    return plan.reason if of_segment is None else f"{of_segment.fate.replace('_', ' ')}: {of_segment.reason}"


def _retention_ms(found: Explanation) -> int | None:
    """Return the time from which `retention.ms` lets the segment go; None if it never does."""
    plan = found.retention
    if plan is None:
        return None
    base_offset = found.segment.base_offset
    ages = [each.age_timestamp for each in plan.segments if each.base_offset <= base_offset]
    return plan.expires_ms(max(ages)) if ages else None


def _compaction(found: Explanation) -> str | None:
    plan = found.compaction
    if plan is None or not (plan.is_applicable or plan.uncleanable_offset):
        return None if plan is None else plan.reason
    if found.offset >= plan.uncleanable_offset:
        return f"{plan.reason}; the offset is not before {plan.uncleanable_offset}, up to where a cleaner may go"
    if found.offset < plan.first_dirty_offset:
        return f"{plan.reason}; the offset is in the clean part, before {plan.first_dirty_offset}"
    return f"{plan.reason}; the offset is in the dirty part, of which the latest record of each key stays"


def _time(timestamp: int) -> str:
    return "no time" if timestamp == NO_TIMESTAMP or timestamp < 0 else str(Instant(timestamp))


def _entry(entry: tuple[int, int] | None, *names: str) -> dict[str, int] | None:
    return None if entry is None else dict(zip(names, entry, strict=True))


def _neighbour(batch: Neighbour | None) -> dict[str, int] | None:
    if batch is None:
        return None
    first_offset, last_offset, position, size_bytes = batch
    return {"baseOffset": first_offset, "lastOffset": last_offset, "position": position, "bytes": size_bytes}


def _neighbour_text(batch: Neighbour | None) -> str:
    if batch is None:
        return "no batch"
    return f"{offsets_text(batch.first_offset, batch.last_offset + 1)}, {batch.size_bytes} bytes at {batch.position}"
