"""Partitions of every kind, written by our own log: what another reader is asked to find the same in.

Each specimen is a topic of one partition: its settings, and how it is filled. What it holds never varies.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.record.compression import Codec
from storage.record.encoding import BatchForm
from storage.record.layout import LAST_SEQUENCE, TimestampType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from partition_writer import PartitionWriter

    Fill: TypeAlias = Callable[[PartitionWriter], None]

SMALL: Final = {"segment.bytes": "16384", "segment.index.bytes": "4096", "index.interval.bytes": "512"}
TINY: Final = {"segment.bytes": "4096", "segment.index.bytes": "1200", "index.interval.bytes": "256"}
FULL_INDEXES: Final = {"segment.index.bytes": "120", "index.interval.bytes": "100"}
MEDIUM: Final = {**SMALL, "segment.bytes": "65536"}
BIG: Final = {**SMALL, "segment.bytes": "2097152"}
LARGE_RECORD_BYTES: Final = 900_000


class Specimen(NamedTuple):
    """A topic, and how its partition is filled."""

    settings: Mapping[str, str]
    fill: Fill


def fill_plainly(writer: PartitionWriter, codec: Codec) -> None:
    """Batches of one and of many records, over some segments."""
    for count in (1, 300, 40, 7, 500, 2) * 4:
        writer.send(writer.rows(count), BatchForm(codec=codec))


def fill_with_all_codecs(writer: PartitionWriter) -> None:
    """Fill a log with batches in every codec."""
    for codec in list(Codec) * 5:
        writer.send(writer.rows(60), BatchForm(codec=codec))


def fill_with_large_records(writer: PartitionWriter) -> None:
    """Records that no codec makes smaller, and some that every codec does."""
    for codec in Codec:
        noise, words = writer.rng.randbytes(LARGE_RECORD_BYTES), b"again " * (LARGE_RECORD_BYTES // 6)
        for value in (noise, words):
            writer.send(
                [(writer.clock.ms, b"large", value, (("codec", codec.label.encode()),))], BatchForm(codec=codec)
            )


def fill_idempotently(writer: PartitionWriter) -> None:
    """Producers that take turns, send again what they sent, go over the last sequence, and begin a new epoch."""
    writer.begin_at(3, LAST_SEQUENCE - 7)
    for turn in range(40):
        epoch = turn // 30  # of the second producer
        sent = [
            writer.produce(producer_id, 1 + turn % 5, epoch=epoch * (producer_id == 2)) for producer_id in (1, 2, 3)
        ]
        writer.send(writer.rows(1))
        assert all(writer.repeat(batch).is_duplicate for batch in sent)


def fill_with_transactions(writer: PartitionWriter, *open_at_the_end: int) -> None:
    """Producers whose transactions overlap, end either way and go over many segments."""
    open_now: dict[int, int] = {}  # producer id -> batches to come
    for _ in range(150):
        producer_id = writer.rng.randrange(1, 6)
        if producer_id == 5:
            writer.produce(5, 2)
        elif open_now.setdefault(producer_id, writer.rng.randrange(1, 12)) > 0:
            writer.produce(producer_id, writer.rng.randrange(1, 4), is_transactional=True)
            open_now[producer_id] -= 1
        else:
            del open_now[producer_id]
            writer.end_transaction(producer_id, committed=writer.rng.random() < 0.5)
    for producer_id in sorted(open_now):
        if producer_id not in open_at_the_end:
            writer.end_transaction(producer_id, committed=producer_id % 2 == 0)
    for producer_id in open_at_the_end:
        writer.produce(producer_id, 3, is_transactional=True)
    writer.produce(5, 2)


def fill_with_odd_transactions(writer: PartitionWriter) -> None:
    """Markers that end nothing or fence their producer, newer coordinators, one transaction right after another."""
    writer.end_transaction(1, committed=False)
    writer.produce(2, 3, is_transactional=True)
    writer.end_transaction(2, committed=False, epoch=1, coordinator_epoch=3)
    writer.produce(2, 2, epoch=1, is_transactional=True)
    writer.end_transaction(2, committed=True, epoch=1, coordinator_epoch=4)
    writer.produce(2, 2, epoch=1, is_transactional=True)
    writer.end_transaction(2, committed=False, epoch=1, coordinator_epoch=4)
    writer.produce(2, 2, epoch=1)
    writer.produce(1, 1, is_transactional=True)
    writer.end_transaction(1, committed=True)


def fill_batch_by_batch(writer: PartitionWriter, count: int, interval_ms: int = 0) -> None:
    """Many small batches, further apart in time if need be."""
    for _ in range(count):
        writer.send(writer.rows(2))
        writer.clock.ms += interval_ms


def fill_under_many_leaders(writer: PartitionWriter) -> None:
    """Leaders that follow one another, not without gaps between their epochs, within segments and across."""
    for turn in range(12):
        writer.leader_epoch += 1 + turn % 3
        fill_batch_by_batch(writer, 5)


def fill_after_truncation(writer: PartitionWriter) -> None:
    """A log that was cut in its active segment, inside of a batch, in an older segment, and each time went on."""
    for cut in (1, 2, 40):
        fill_batch_by_batch(writer, 30)
        writer.truncate_to(writer.end_offset - cut)
        writer.leader_epoch += 1
    fill_batch_by_batch(writer, 7)


def fill_after_truncated_transactions(writer: PartitionWriter) -> None:
    """A log that lost an abort marker and the beginning of a transaction, and went on with other ones."""
    writer.produce(1, 2, is_transactional=True)
    fill_batch_by_batch(writer, 30)
    lost = writer.end_transaction(1, committed=False)
    writer.produce(2, 2, is_transactional=True)
    writer.end_transaction(2, committed=False)
    writer.truncate_to(lost.first_offset)
    writer.leader_epoch += 1
    writer.begin_at(2, 0)
    writer.produce(2, 4, is_transactional=True)
    writer.end_transaction(1, committed=True)
    fill_batch_by_batch(writer, 30)
    writer.end_transaction(2, committed=False)


def fill_again(writer: PartitionWriter) -> None:
    """A log that was cut down to nothing."""
    writer.produce(1, 2, is_transactional=True)
    fill_batch_by_batch(writer, 40)
    writer.truncate_to(0)
    writer.leader_epoch += 1
    fill_batch_by_batch(writer, 20)


def fill_and_delete(writer: PartitionWriter, kept: int) -> None:
    """Fill a log and delete all but its last records."""
    fill_under_many_leaders(writer)
    writer.produce(1, 2, is_transactional=True)
    writer.end_transaction(1, committed=False)
    writer.send(writer.rows(10))
    writer.advance_start(writer.end_offset - kept)


def fill_with_old_sets(writer: PartitionWriter, magic: int, timestamp_type: TimestampType) -> None:
    """Message sets of an old version, compressed and not."""
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4) * 3:
        writer.replicate_old(writer.rng.randrange(1, 80), magic, codec, timestamp_type)


def fill_over_upgrades(writer: PartitionWriter) -> None:
    """All versions, one after the other."""
    fill_with_old_sets(writer, 0, TimestampType.CREATE_TIME)
    fill_with_old_sets(writer, 1, TimestampType.CREATE_TIME)
    writer.leader_epoch = 5
    fill_with_all_codecs(writer)


def fill_with_gaps(writer: PartitionWriter) -> None:
    """Fill a log as another leader has compacted it, up to offsets that do not fit into one segment."""
    for offset in (3, 10, 1000, 2**31 + 1, 2**31 + 6, 2**40, 2**40 + 2**31 - 1, 2**40 + 2**31 + 4):
        writer.replicate(offset, writer.rows(4))


def fill_not_at_all(_: PartitionWriter) -> None:
    """Nothing."""


_CREATED: Final = TimestampType.CREATE_TIME
_APPENDED: Final = TimestampType.LOG_APPEND_TIME

SPECIMENS: Final[Mapping[str, Specimen]] = {
    **{f"codec-{codec.label}": Specimen(MEDIUM, partial(fill_plainly, codec=codec)) for codec in Codec},
    **{
        f"stored-{name}": Specimen({**SMALL, "compression.type": name}, fill_with_all_codecs)
        for name in ("uncompressed", "gzip", "snappy", "lz4", "zstd")
    },
    "stored-as-sent": Specimen(SMALL, fill_with_all_codecs),
    "append-time": Specimen({**SMALL, "message.timestamp.type": "LogAppendTime"}, fill_with_all_codecs),
    "append-time-gzip": Specimen(
        {**SMALL, "message.timestamp.type": "LogAppendTime", "compression.type": "gzip"}, fill_with_all_codecs
    ),
    "large": Specimen(BIG, fill_with_large_records),
    "idempotent": Specimen(TINY, fill_idempotently),
    "transactions": Specimen(TINY, fill_with_transactions),
    "transactions-open": Specimen(TINY, lambda writer: fill_with_transactions(writer, 1, 3)),
    "transactions-odd": Specimen(SMALL, fill_with_odd_transactions),
    "rolled-by-size": Specimen(TINY, lambda writer: fill_batch_by_batch(writer, 60)),
    "rolled-by-time": Specimen(
        {**SMALL, "segment.ms": "600000"}, lambda writer: fill_batch_by_batch(writer, 20, 200_000)
    ),
    "rolled-by-index": Specimen(FULL_INDEXES, lambda writer: fill_batch_by_batch(writer, 80)),
    "leaders": Specimen(TINY, fill_under_many_leaders),
    "truncated": Specimen(TINY, fill_after_truncation),
    "truncated-transactions": Specimen(TINY, fill_after_truncated_transactions),
    "truncated-to-nothing": Specimen(TINY, fill_again),
    "deleted-in-batch": Specimen(TINY, partial(fill_and_delete, kept=4)),
    "deleted-many": Specimen(TINY, partial(fill_and_delete, kept=60)),
    "deleted-all": Specimen(TINY, partial(fill_and_delete, kept=0)),
    "old-0": Specimen(SMALL, partial(fill_with_old_sets, magic=0, timestamp_type=_CREATED)),
    "old-1": Specimen(SMALL, partial(fill_with_old_sets, magic=1, timestamp_type=_CREATED)),
    "old-1-append-time": Specimen(SMALL, partial(fill_with_old_sets, magic=1, timestamp_type=_APPENDED)),
    "old-upgraded": Specimen(SMALL, fill_over_upgrades),
    "gaps": Specimen(SMALL, fill_with_gaps),
    "preallocated": Specimen({**SMALL, "preallocate": "true"}, partial(fill_batch_by_batch, count=200)),
    "default": Specimen({}, partial(fill_batch_by_batch, count=50)),
    "empty": Specimen({}, fill_not_at_all),
}
"""By the names of their topics."""
