"""Hypothesis strategies for what logs hold: legal records, batches, entries and whole logs, and damaged ones.

What `batches` and `entries` give reads back equal to itself once encoded; only what is named after damage may fail
to decode, and then with an error of `storage.errors`. This module needs hypothesis, which only tests install.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from storage.testing.codec import (
    ABORT,
    CODECS,
    COMMIT,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LZ4,
    NONE,
    TRANSACTIONAL,
    OracleBatch,
    OracleEntry,
    OracleRecord,
    batch_of,
    compress,
    encode_batch,
    encode_control_key,
    encode_end_transaction,
    encode_entry,
    encode_records,
    entry_of,
    resealed,
    seal_batch,
    wrapper_of,
)
from storage.testing.mutations import mutate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
RECORDS_MAX = 8
LEGACY_CODECS = tuple(range(LZ4 + 1))

usual_timestamps = st.one_of(
    st.integers(1_600_000_000_000, 1_800_000_000_000),
    st.sampled_from([-1, 0, 1, 2**40]),
)
"""Timestamps as clocks give them, in no order, with none and the epoch among them."""

timestamps = st.one_of(usual_timestamps, st.integers(-1, INT64_MAX), st.just(INT64_MAX))
"""Every timestamp that the format can hold."""

small_bytes = st.one_of(
    st.just(b""),
    st.binary(max_size=24),
    st.text(max_size=8).map(str.encode),
    st.sampled_from([b"\xff\xfe", b"\xed\xa0\x80", b"\x00", b"\n", b"\t", b'"', b"\xc3"]),
)
large_bytes = st.builds(lambda piece, count: piece * count, st.binary(min_size=1, max_size=16), st.integers(1, 256))

keys = st.one_of(st.none(), small_bytes, st.sampled_from([b"a", b"b", b"c"]))
values = st.one_of(st.none(), small_bytes, small_bytes, large_bytes)
header_keys = st.one_of(st.sampled_from(["", "h", "h", "trace-id"]), st.text(max_size=8))
headers = st.lists(st.tuples(header_keys, st.one_of(st.none(), small_bytes)), max_size=4).map(tuple)

base_offsets = st.one_of(st.just(0), st.integers(0, 2**40), st.sampled_from([2**31 - 1, 2**31, 2**62]))


@st.composite
def offset_deltas(draw: DrawFn, *, max_records: int = RECORDS_MAX) -> tuple[int, ...]:
    """Rising deltas of at least one record: without gaps, with some, or with ones as large as a batch allows."""
    steps = st.one_of(st.just(1), st.just(1), st.integers(1, 1000))
    deltas = [draw(st.sampled_from([0, 0, 0, 1, 57]))]
    for _ in range(draw(st.integers(0, max_records - 1))):
        deltas.append(deltas[-1] + draw(steps))
    if draw(st.integers(0, 19)) == 0:
        deltas.append(INT32_MAX)
    return tuple(deltas)


@st.composite
def records(
    draw: DrawFn,
    *,
    base_offset: int = 0,
    timestamps: SearchStrategy[int] = timestamps,
    max_records: int = RECORDS_MAX,
    with_headers: bool = True,
) -> tuple[OracleRecord, ...]:
    """At least one record, of rising offsets that may leave gaps."""
    return tuple(
        OracleRecord(
            offset=base_offset + delta,
            timestamp=draw(timestamps),
            key=draw(keys),
            value=draw(values),
            headers=draw(headers) if with_headers else (),
        )
        for delta in draw(offset_deltas(max_records=max_records))
    )


@st.composite
def data_batches(
    draw: DrawFn,
    *,
    base_offsets: SearchStrategy[int] = base_offsets,
    timestamps: SearchStrategy[int] = timestamps,
    codecs: Sequence[int] = CODECS,
    max_records: int = RECORDS_MAX,
) -> OracleBatch:
    """A batch of records, as appended or as the cleaner has left it."""
    base_offset = draw(base_offsets)
    has_producer = draw(st.booleans())
    has_horizon = draw(st.integers(0, 3)) == 0
    attributes = draw(st.sampled_from(codecs)) | draw(st.sampled_from([0, 0, LOG_APPEND_TIME]))
    attributes |= draw(st.sampled_from([0, TRANSACTIONAL])) if has_producer else 0
    batch = batch_of(
        draw(records(base_offset=base_offset, timestamps=timestamps, max_records=max_records)),
        base_offset=base_offset,
        partition_leader_epoch=draw(st.sampled_from([-1, 0, 7, INT32_MAX])),
        attributes=attributes | (DELETE_HORIZON if has_horizon else 0),
        base_timestamp=draw(timestamps) if has_horizon else None,
        producer_id=draw(st.sampled_from([0, 9, INT64_MAX])) if has_producer else -1,
        producer_epoch=draw(st.sampled_from([0, 2, 2**15 - 1])) if has_producer else -1,
        base_sequence=draw(st.sampled_from([0, 1000, INT32_MAX - 2, INT32_MAX])) if has_producer else -1,
    )
    lost_tail = draw(st.sampled_from([0, 0, 0, 1, 1000]))
    return replace(batch, last_offset_delta=min(batch.last_offset_delta + lost_tail, INT32_MAX))


@st.composite
def control_batches(
    draw: DrawFn,
    *,
    base_offsets: SearchStrategy[int] = base_offsets,
    timestamps: SearchStrategy[int] = timestamps,
) -> OracleBatch:
    """The marker of a transaction's end."""
    marker = OracleRecord(
        offset=draw(base_offsets),
        timestamp=draw(timestamps),
        key=encode_control_key(draw(st.sampled_from([ABORT, COMMIT]))),
        value=encode_end_transaction(draw(st.integers(-1, INT32_MAX))),
    )
    return batch_of(
        [marker],
        attributes=CONTROL | TRANSACTIONAL,
        producer_id=draw(st.integers(0, INT64_MAX)),
        producer_epoch=draw(st.integers(0, 2**15 - 1)),
    )


@st.composite
def empty_batches(
    draw: DrawFn,
    *,
    base_offsets: SearchStrategy[int] = base_offsets,
    timestamps: SearchStrategy[int] = timestamps,
) -> OracleBatch:
    """A producer's last batch as a cleaner leaves it after it has removed every record."""
    batch = batch_of(
        [],
        base_offset=draw(base_offsets),
        attributes=draw(st.sampled_from([0, TRANSACTIONAL, TRANSACTIONAL | CONTROL])),
        producer_id=draw(st.integers(0, INT64_MAX)),
        producer_epoch=draw(st.integers(0, 2**15 - 1)),
        base_sequence=draw(st.integers(-1, INT32_MAX)),
    )
    return replace(batch, last_offset_delta=draw(st.integers(0, 1000)), max_timestamp=draw(timestamps))


def batches(
    *,
    base_offsets: SearchStrategy[int] = base_offsets,
    timestamps: SearchStrategy[int] = timestamps,
    codecs: Sequence[int] = CODECS,
) -> SearchStrategy[OracleBatch]:
    """Every kind of v2 batch that a log may hold, mostly those with records of users in them."""
    data = data_batches(base_offsets=base_offsets, timestamps=timestamps, codecs=codecs)
    control = control_batches(base_offsets=base_offsets, timestamps=timestamps)
    empty = empty_batches(base_offsets=base_offsets, timestamps=timestamps)
    return st.one_of(data, data, data, control, empty)


@st.composite
def entries(
    draw: DrawFn,
    *,
    base_offsets: SearchStrategy[int] = base_offsets,
    timestamps: SearchStrategy[int] = timestamps,
    magics: Sequence[int] = (0, 1),
    codecs: Sequence[int] = LEGACY_CODECS,
    mixed_magics: bool = True,
) -> OracleEntry:
    """An entry of magic 0 or 1, plain or wrapping others, those that old cleaners mixed up included."""
    base_offset = draw(base_offsets)
    magic = draw(st.sampled_from(magics))
    codec = draw(st.sampled_from(codecs))
    log_append_time = magic > 0 and draw(st.booleans())
    if codec == NONE:
        (record,) = draw(records(base_offset=base_offset, timestamps=timestamps, max_records=1, with_headers=False))[:1]
        return entry_of(record, magic, log_append_time=log_append_time)
    return wrapper_of(
        draw(records(base_offset=base_offset, timestamps=timestamps, with_headers=False)),
        magic,
        codec,
        inner_magic=draw(st.sampled_from([magic, magic, 0, 1])) if mixed_magics else magic,
        log_append_time=log_append_time,
    )


def encoded(unit: OracleBatch | OracleEntry) -> bytes:
    """Return the bytes of a batch of any magic."""
    return encode_batch(unit) if isinstance(unit, OracleBatch) else encode_entry(unit)


@st.composite
def logs(draw: DrawFn, *, max_batches: int = 5) -> tuple[OracleBatch | OracleEntry, ...]:
    """The batches of one segment in order of their offsets, of all magics, the oldest first."""
    units: list[OracleBatch | OracleEntry] = []
    offset = draw(st.integers(0, 2**40))
    magic = 0
    for _ in range(draw(st.integers(0, max_batches))):
        magic = draw(st.integers(magic, 2))
        here = st.just(offset)
        if magic == 2:
            units.append(draw(batches(base_offsets=here)))
        else:
            units.append(draw(entries(base_offsets=here, magics=[magic])))
        offset = units[-1].last_offset + 1 + draw(st.sampled_from([0, 0, 0, 1, 100]))
    return tuple(units)


def mutated(data: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    """The data with up to three injuries; most of what it says is still as it was."""
    return st.builds(mutate, st.randoms(use_true_random=False), data)


def damaged_batches() -> SearchStrategy[bytes]:
    """A batch of any magic that frames well and carries the right checksum, but was damaged before that was taken."""
    return st.one_of(
        mutated(batches().map(encode_batch)).map(resealed),
        mutated(entries().map(encode_entry)).map(resealed),
        batches_with_damaged_records(),
    )


@st.composite
def batches_with_damaged_records(draw: DrawFn) -> bytes:
    """A v2 batch whose records were damaged before they were compressed, so that only parsing them can tell."""
    batch = draw(data_batches())
    records_data = draw(mutated(st.just(encode_records(batch))))
    batch = replace(batch, record_count=batch.record_count + draw(st.sampled_from([0, 0, 0, 1, -1])))
    return seal_batch(batch, compress(batch.codec, records_data))
