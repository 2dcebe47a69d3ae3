"""A partition's log rewritten into a built store: batches recompressed, merged, or without the values of certain keys.

Offsets, timestamps, headers, producers, transactions and leader epochs stay as they are. Batches of old versions keep
their version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.cleanup.batch_filter import KeptBatch
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.record.batch import RecordBatch
from storage.record.compression import Codec
from storage.record.layout import CODEC_MASK, DELETE_HORIZON_BIT, LARGEST_OFFSET_DELTA, LAST_SEQUENCE
from storage.record.legacy_encoding import encode_entries, encode_wrapper
from storage.record.reading import read_batches
from storage.record.rewriting import merged, recompressed, retaining
from storage.rewrite.log_copier import CopiedBatch, LogCopier
from storage.rewrite.log_pieces import copied_segment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from storage.config import TopicConfig
    from storage.log.view import SegmentSlice
    from storage.log_dir.checkpoints import Partition
    from storage.record.kernel.decode import Record
    from storage.record.layout import TimestampType
    from storage.record.legacy import LegacyBatch
    from storage.rewrite.log_pieces import BuiltSegments, CopiedSegment, LogPiece
    from storage.rewrite.store_builder import StoreBuilder
    from storage.store.store import Store

_WRAPPED: Final = frozenset({Codec.GZIP, Codec.SNAPPY, Codec.LZ4})  # the codecs of wrappers
_ENTRY_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRules:
    """The changes to make to batches; by default none.

    A record with a redacted key loses its value and headers and keeps its key, or is dropped. Neighbouring batches are
    merged up to `batch_bytes`, their stored size.
    """

    codec: Codec | None = None
    level: int | None = None
    redacted_keys: frozenset[bytes] = frozenset()
    drops_redacted: bool = False
    batch_bytes: int = 0


@dataclass(slots=True)
class RewriteTally:
    """Counts of the batches and records that were read, written and redacted."""

    records_before: int = 0
    batches_before: int = 0
    batches_after: int = 0
    redacted: int = 0
    dropped: int = 0

    def add(self, other: Self) -> None:
        """Add the counts of another part of the log."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class RewrittenPiece(NamedTuple):
    """A piece of a log that was rewritten: the segments that were read and those that were written, and the counts."""

    copied: tuple[CopiedSegment, ...]
    built: BuiltSegments
    tally: RewriteTally


class _Bare(NamedTuple):
    """A redacted record: its place and its key."""

    offset: int
    timestamp: int
    key: bytes | None
    value: None = None


@dataclass(slots=True)
class BatchRewriter:
    """Rewrites the batches of one log, given from its beginning.

    `last_of_producers` are the last offsets of the batches by which a broker knows the log's producers. These batches
    are not merged.
    """

    rules: RewriteRules
    config: TopicConfig
    last_of_producers: Collection[int]
    tally: RewriteTally = field(default_factory=RewriteTally)
    _pending: list[RecordBatch] = field(default_factory=list)
    _pending_bytes: int = 0
    _modified_ms: int = 0

    def add(self, copied: CopiedBatch) -> Iterator[CopiedBatch]:
        """Yield the batches that this one completes, in their order."""
        batch = copied.batch
        self.tally.batches_before += 1
        if not isinstance(batch, RecordBatch):
            yield from self.rest()
            rewritten = self._entries(batch)
            if rewritten is not None:
                yield self._counted(copied._replace(batch=rewritten))
            return
        if batch.is_control:
            yield from self.rest()
            yield self._counted(copied)
            return
        batch = self._redacted(batch)
        if self._pending and not self._joins(batch):
            yield from self.rest()
        self._pending.append(batch)
        self._pending_bytes += batch.size_bytes
        self._modified_ms = copied.modified_ms

    def rest(self) -> Iterator[CopiedBatch]:
        """Yield the pending batch."""
        if self._pending:
            pending, self._pending, self._pending_bytes = self._pending, [], 0
            yield self._counted(CopiedBatch(self._written(pending), None, self._modified_ms))

    def _counted(self, copied: CopiedBatch) -> CopiedBatch:
        self.tally.batches_after += 1
        return copied

    # Batches of version 2

    def _redacted(self, batch: RecordBatch) -> RecordBatch:
        self.tally.records_before += batch.count
        keys = self.rules.redacted_keys
        if not keys or not batch.count:
            return batch
        records = list(batch.records())
        if not any(record.key in keys for record in records):
            return batch
        return _batch(retaining(batch, self._left(records), level=self._level(batch.codec)))

    def _left(self, records: Sequence[Record]) -> list[Record]:
        """Return the records that remain after redaction."""
        keys, left = self.rules.redacted_keys, []
        for record in records:
            if record.key not in keys:
                left.append(record)
            elif self.rules.drops_redacted:
                self.tally.dropped += 1
            else:
                self.tally.redacted += 1
                left.append(_tombstone(record))
        return left

    def _joins(self, batch: RecordBatch) -> bool:
        """Return True if the batch may be merged with the pending ones."""
        first, last = self._pending[0], self._pending[-1]
        differing = CODEC_MASK if self.rules.codec is not None else 0
        return (
            self._pending_bytes + batch.size_bytes <= self.rules.batch_bytes
            and bool(first.count and batch.count)
            and not (first.attributes ^ batch.attributes) & ~differing
            and not first.attributes & DELETE_HORIZON_BIT
            and (first.producer_id, first.producer_epoch) == (batch.producer_id, batch.producer_epoch)
            and first.leader_epoch == batch.leader_epoch
            and (first.timestamp_type == 0 or first.max_timestamp == batch.max_timestamp)
            and batch.last_offset - first.base_offset <= LARGEST_OFFSET_DELTA
            and (batch.producer_id < 0 or self._continues(last, batch))
        )

    def _continues(self, last: RecordBatch, batch: RecordBatch) -> bool:
        """Return True if a producer's batch continues its last one, and a broker needs neither to know the producer."""
        follows = batch.base_offset == last.last_offset + 1
        sequence = (last.base_sequence + last.last_offset_delta + 1) % (LAST_SEQUENCE + 1)
        needed = {last.last_offset, batch.last_offset}.intersection(self.last_of_producers)
        return follows and batch.base_sequence == sequence and not needed

    def _written(self, batches: Sequence[RecordBatch]) -> RecordBatch:
        """Return the one batch to write for these."""
        codec = self.rules.codec
        (batch, *others) = batches
        if others:
            codec = batch.codec if codec is None else codec
            return _batch(merged(batches, codec, level=self._level(codec)))
        if not batch.count or codec is None or (codec is batch.codec and self.rules.level is None):
            return batch
        return _batch(recompressed(batch, codec, level=self._level(codec)))

    def _level(self, codec: Codec) -> int | None:
        if codec is self.rules.codec and self.rules.level is not None:
            return self.rules.level
        return self.config.compression_level(codec)

    # Entries and wrappers of old versions

    def _entries(self, batch: LegacyBatch) -> LegacyBatch | None:
        """Rewrite an entry or a wrapper; None if no record remains."""
        keys, rules = self.rules.redacted_keys, self.rules
        is_wrapper = batch.codec is not Codec.NONE
        if not is_wrapper and not keys:
            self.tally.records_before += 1
            return batch
        records = list(batch.records())
        self.tally.records_before += len(records)
        is_hit = any(record.key in keys for record in records)
        codec = rules.codec if is_wrapper and rules.codec in _WRAPPED else batch.codec
        if not is_hit and (codec is batch.codec and (rules.level is None or codec is not rules.codec)):
            return batch
        left = self._left(records) if is_hit else records
        if not left:
            return None
        kind: TimestampType = batch.timestamp_type
        if not is_wrapper:
            return _entry(encode_entries(left, batch.magic, timestamp_type=kind))
        level = self._level(codec)
        return _entry(encode_wrapper(left, batch.magic, codec, level=level, timestamp_type=kind))


def rewrite_piece(store: Store, build: StoreBuilder, piece: LogPiece, rules: RewriteRules) -> RewrittenPiece:
    """Rewrite a piece of a log of a read-only store, for `copy_rewritten` to put the copy together."""
    with build.piece(piece.partition) as directory:
        copier = LogCopier(store, build, piece.partition, directory)
        try:
            slices = piece.of(copier.slices())
            copied = tuple(map(copied_segment, slices))
            rewriter = _rewriter(copier, rules)
            _rewrite(copier, rewriter, slices)
            return RewrittenPiece(copied, copier.builder.built(), rewriter.tally)
        finally:
            copier.builder.close()


def copy_rewritten(
    store: Store,
    build: StoreBuilder,
    partition: Partition,
    rules: RewriteRules,
    pieces: Sequence[RewrittenPiece] = (),
) -> None:
    """Rewrite a partition of a read-only store into a built one. Raises a `StorageError` if the log cannot be read.

    Segments are rolled by the topic's settings. Of the `pieces` it takes those that are copies of segments as they are
    now and that no other attempt has taken.
    """
    with build.attempt(partition) as directory:
        copier = LogCopier(store, build, partition, directory)
        try:
            rewriter = _rewriter(copier, rules)
            _put_together(copier, rewriter, build, {each.copied[0].base_offset: each for each in pieces if each.copied})
            copier.finish()
        finally:
            copier.builder.close()
        _, log_dir = store.topics.location(*partition)
        checkpoint = log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY).get(partition)
        if checkpoint is None and rewriter.tally.dropped:
            checkpoint = 0
        copier.put(checkpoint, _stats(copier, rewriter.tally))


def _stats(copier: LogCopier, tally: RewriteTally) -> dict[str, int]:
    return {
        "recordsBefore": tally.records_before,
        "recordsAfter": tally.records_before - tally.dropped,
        "batchesBefore": tally.batches_before,
        "batchesAfter": tally.batches_after,
        "beforeBytes": copier.size_bytes,
        "afterBytes": copier.builder.size_bytes,
        "redacted": tally.redacted,
        "dropped": tally.dropped,
        "segments": copier.builder.segments,
    }


def _rewriter(copier: LogCopier, rules: RewriteRules) -> BatchRewriter:
    last = {state.batches[-1].last_offset for state in copier.producers if state.batches}
    return BatchRewriter(rules, copier.config, last)


def _put_together(
    copier: LogCopier, rewriter: BatchRewriter, build: StoreBuilder, pieces: Mapping[int, RewrittenPiece]
) -> None:
    """Rewrite the log but for the pieces that can be taken, by the base offset of each."""
    slices = list(copier.slices())
    pending: list[SegmentSlice] = []
    while slices:
        piece = pieces.get(slices[0].segment.base_offset)
        count = 0 if piece is None else len(piece.copied)
        directory = None
        if piece is not None and piece.copied == tuple(map(copied_segment, slices[:count])):
            directory = build.claim(piece.built.directory)
        if piece is None or directory is None:
            pending.append(slices.pop(0))
            continue
        _rewrite(copier, rewriter, pending)
        if piece.built.size_bytes or not copier.builder.segments:  # if nothing is left of it, no segment need be there
            copier.builder.adopt(directory, piece.built)
        rewriter.tally.add(piece.tally)
        slices, pending = slices[count:], []
    _rewrite(copier, rewriter, pending)


def _rewrite(copier: LogCopier, rewriter: BatchRewriter, slices: Sequence[SegmentSlice]) -> None:
    """Rewrite segments in a row, the first of which begins a segment of the copy."""
    if not slices:
        return
    copier.builder.cut(slices[0].segment.base_offset)
    for part in slices:
        for copied in copier.batches(part):
            _write(copier, rewriter.add(copied))
    _write(copier, rewriter.rest())


def _write(copier: LogCopier, rewritten: Iterable[CopiedBatch]) -> None:
    for batch, aborted, modified_ms in rewritten:
        kept = KeptBatch(batch.view(0, batch.size_bytes), is_unchanged=True, aborted=aborted)
        copier.builder.add(batch, kept, modified_ms)


def _batch(data: bytes) -> RecordBatch:
    (batch,) = read_batches(data)
    assert isinstance(batch, RecordBatch)
    return batch


def _entry(data: bytes) -> LegacyBatch:
    (entry,) = read_batches(data)
    assert not isinstance(entry, RecordBatch)
    return entry


def _tombstone(record: Record) -> Record:
    """Return the record without its value and headers."""
    bare = _Bare(record.offset, record.timestamp, record.key)
    return next(iter(_entry(encode_entries([bare], _ENTRY_VERSION)).records()))
