"""Validating batches, and giving them the form that a log stores: offsets, times, codecs.

A leader's batch is assigned its offsets, and is checked whole unless this process has just encoded it. A follower's
batches have offsets, which have to follow the log's end. Nothing is written here. `producers` decides what a producer
may write next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.errors import (
    BatchTooLargeError,
    InvalidRecordError,
    StorageError,
    UnexpectedOffsetError,
)
from storage.log.producers.state import AppendOrigin
from storage.record.batch import RecordBatch
from storage.record.compression import Codec, compress
from storage.record.kernel.encode import encode_rows
from storage.record.kernel.records_data import EncodedBatch, seal
from storage.record.kernel.summary import RecordsSummary, summarize_records
from storage.record.layout import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TimestampType,
)
from storage.record.leased import HEADER_BYTES, check_share, objects_bytes
from storage.record.lz4_frame import has_linked_blocks
from storage.record.reading import read_batches
from storage.record.rewriting import assign_offset
from storage.segment.writable_segment import PlacedBatches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from storage.config import TopicConfig
    from storage.log.producers.state import CachedBatch
    from storage.record.reading import Batch


class Appended(NamedTuple):
    """The offsets that batches have in the log; `is_duplicate` is True if an earlier append wrote them."""

    first_offset: int
    last_offset: int
    is_duplicate: bool = False


class SentBatch(NamedTuple):
    """A batch as a producer or a coordinator sends it. `summary` is None until its records are read."""

    batch: RecordBatch
    summary: RecordsSummary | None


def read_sent_batch(data: Buffer, config: TopicConfig, origin: AppendOrigin) -> SentBatch:
    """Read the one batch that a producer or a coordinator sends; raises a `StorageError` if it is invalid.

    The bytes of an `EncodedBatch` are not checked, as they never left this process.
    """
    walk = read_batches(data)
    batch = next(walk, None)
    if not isinstance(batch, RecordBatch):
        raise InvalidRecordError("what is appended does not begin with a whole batch of version 2")
    if walk.position != memoryview(data).nbytes:
        raise InvalidRecordError("what is appended is more than one batch")
    _check_size(batch.size_bytes, config)
    summary = data.summary if isinstance(data, EncodedBatch) else None
    if summary is None:
        batch.check_crc()
    if origin is AppendOrigin.CLIENT:
        _check_header(batch)
    return SentBatch(batch, summary)


def place_sent(
    batches: Sequence[SentBatch],
    known: Sequence[CachedBatch | None],
    config: TopicConfig,
    *,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
) -> tuple[list[Appended], list[PlacedBatches]]:
    """Return the answers to batches sent together, and the batches to write: all but those that the log has already.

    Raises as `place_sent_batch` does if one of them cannot be stored.
    """
    answers: list[Appended] = []
    placed: list[PlacedBatches] = []
    for batch, before in zip(batches, known, strict=True):
        if before is not None:
            answers.append(Appended(before.first_offset, before.last_offset, is_duplicate=True))
            continue
        one = place_sent_batch(batch, config, next_offset=next_offset, leader_epoch=leader_epoch, now_ms=now_ms)
        placed.append(one)
        answers.append(Appended(next_offset, one.last_offset))
        next_offset = one.last_offset + 1
    return answers, placed


def place_sent_batch(
    sent: SentBatch, config: TopicConfig, *, next_offset: int, leader_epoch: int, now_ms: int
) -> PlacedBatches:
    """Return the batch at its offsets, in the form of the topic's settings; raises a `StorageError` if none fits."""
    batch, summary = sent
    records_data = None if summary is not None or batch.codec is Codec.NONE else batch.records_data()
    try:
        found = summarize_records(batch, records_data) if summary is None else summary
        _check_records(found, config, now_ms)
        if summary is None:
            _check_size_in_memory(batch, records_data, found)
        changed = _changed(batch, records_data, found, config, next_offset, leader_epoch, now_ms)
    except StorageError as error:
        raise error.located(offset=next_offset) from None
    if changed is not None:
        _check_size(len(changed), config)
        placed = PlacedBatches.of(tuple(read_batches(changed)), changed)
    else:
        # Only the header is copied: the records after it may be a megabyte, and are written from the sent bytes.
        header = bytearray(batch.view(0, BATCH_HEADER_BYTES))
        assign_offset(header, base_offset=next_offset, leader_epoch=leader_epoch)
        stored = batch.with_offset(base_offset=next_offset, leader_epoch=leader_epoch)
        placed = PlacedBatches.of((stored,), header, batch.view(BATCH_HEADER_BYTES, batch.size_bytes))
    _check_fits(placed, config)
    return placed


def place_followed(data: Buffer, config: TopicConfig, *, next_offset: int) -> PlacedBatches | None:
    """Return the whole batches that another leader placed; None if there is none. A partial batch at the end is left.

    Raises `UnexpectedOffsetError` if their offsets do not rise or the log has them already.
    """
    walk = read_batches(data)
    batches: list[Batch] = []
    last_offset = next_offset - 1
    for batch in walk:
        batch.check_crc()
        first_offset = batch.base_offset
        if not last_offset < first_offset <= batch.last_offset:
            raise UnexpectedOffsetError(
                f"a batch has the offsets {first_offset} to {batch.last_offset} where {last_offset + 1} is next",
                offset=first_offset,
            )
        last_offset = batch.last_offset
        batches.append(batch)
    if not batches:
        return None
    placed = PlacedBatches.of(batches, memoryview(data).cast("B")[: walk.position])
    _check_fits(placed, config)
    return placed


def _check_fits(placed: PlacedBatches, config: TopicConfig) -> None:
    """Raise `BatchTooLargeError` if the batches do not fit into one segment."""
    if placed.size_bytes > config.segment_bytes:
        raise BatchTooLargeError(
            f"{placed.size_bytes} bytes do not fit into a segment, as segment.bytes is {config.segment_bytes}"
        )


def _check_size(size_bytes: int, config: TopicConfig) -> None:
    if size_bytes > config.max_message_bytes:
        raise BatchTooLargeError(
            f"the batch has {size_bytes} bytes, and max.message.bytes is {config.max_message_bytes}"
        )


def _check_header(batch: RecordBatch) -> None:
    """Raise `InvalidRecordError` if the header is one that no producer may send."""
    if batch.base_offset != 0:
        raise InvalidRecordError(f"a producer's batch begins at offset 0, this one at {batch.base_offset}")
    if batch.count < 1 or batch.last_offset_delta + 1 != batch.count:
        raise InvalidRecordError(
            f"a producer's batch has as many records as offsets and at least one; this one has {batch.count} records "
            f"and {batch.last_offset_delta + 1} offsets"
        )
    if batch.attributes & CONTROL_BIT:
        raise InvalidRecordError("a producer may not write control records")
    if batch.producer_id > NO_PRODUCER_ID and batch.base_sequence <= NO_SEQUENCE:
        raise InvalidRecordError(f"the batch of producer {batch.producer_id} has no sequence")
    if batch.attributes & LOG_APPEND_TIME_BIT:
        raise InvalidRecordError("a producer may not say that its timestamps are the append time")
    if batch.attributes & CODEC_MASK == Codec.LZ4 and has_linked_blocks(
        batch.view(BATCH_HEADER_BYTES, batch.size_bytes)
    ):
        raise InvalidRecordError("a producer may not link the blocks of an lz4 frame, as Kafka does not read them")


def _check_records(found: RecordsSummary, config: TopicConfig, now_ms: int) -> None:
    if config.compact and found.keyless:
        raise InvalidRecordError(f"{found.keyless} records have no key, which a compacted topic needs")
    if found.min_timestamp < NO_TIMESTAMP:
        raise InvalidRecordError(f"the timestamp {found.min_timestamp} is below -1, which stands for none")
    if config.message_timestamp_type is TimestampType.CREATE_TIME and found.max_timestamp > NO_TIMESTAMP:
        _check_times(found, config, now_ms)


def _check_size_in_memory(batch: RecordBatch, records_data: Buffer | None, found: RecordsSummary) -> None:
    """Raise `DecompressedTooLargeError` for a batch whose records no reader here could decode, as brokers do not."""
    data = batch.view(BATCH_HEADER_BYTES, batch.size_bytes) if records_data is None else records_data
    headers = found.most_headers if found.is_consecutive else found.headers
    size_bytes = objects_bytes(data, batch.count) + headers * HEADER_BYTES
    check_share(size_bytes, f"the batch's {batch.count} records, one of them with {found.most_headers} headers,")


def _check_times(found: RecordsSummary, config: TopicConfig, now_ms: int) -> None:
    if now_ms - found.min_timestamp > config.timestamp_age_max_ms:
        raise InvalidRecordError(
            f"the timestamp {found.min_timestamp} is more than {config.timestamp_age_max_ms} ms before {now_ms}"
        )
    if found.max_timestamp - now_ms > config.timestamp_lead_max_ms:
        raise InvalidRecordError(
            f"the timestamp {found.max_timestamp} is more than {config.timestamp_lead_max_ms} ms after {now_ms}"
        )


def _changed(
    batch: RecordBatch,
    records_data: Buffer | None,
    found: RecordsSummary,
    config: TopicConfig,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
) -> bytes | None:
    """Return the batch in the form to store; None if that is the form in which it was sent."""
    codec = batch.codec if config.compression is None or batch.is_control else config.compression
    attributes = batch.attributes & ~CODEC_MASK & ~LOG_APPEND_TIME_BIT | codec
    max_timestamp, base_timestamp = found.max_timestamp, batch.base_timestamp
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp = now_ms
    is_recompressed = codec is not batch.codec or not found.is_consecutive
    if not is_recompressed and (attributes, max_timestamp) == (batch.attributes, batch.max_timestamp):
        return None
    records: Buffer = batch.view(BATCH_HEADER_BYTES, batch.size_bytes)
    if is_recompressed:
        if not found.is_consecutive:
            rows = [(record.timestamp, record.key, record.value, record.headers) for record in batch.records()]
            records_data = encoded = encode_rows(rows, max_bytes=config.max_message_bytes)
            if encoded.count != batch.count:
                raise BatchTooLargeError(
                    f"with offsets of their own its records do not fit max.message.bytes, {config.max_message_bytes}"
                )
            base_timestamp = encoded.base_timestamp
        elif records_data is None:
            records_data = batch.records_data()
        records = (
            records_data
            if codec is Codec.NONE
            else compress(codec, records_data, level=config.compression_level(codec))
        )
    return seal(
        records,
        base_offset=next_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        count=batch.count,
    )
