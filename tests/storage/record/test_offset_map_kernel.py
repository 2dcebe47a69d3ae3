"""The map of offsets beside a dict, and its fingerprints beside SipHash as its authors wrote it down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import MalformedRecordsError
from storage.record import RecordBatch, read_batches
from storage.record.kernel.offset_map import SLOT_BYTES, OffsetMap, fingerprint
from storage.testing import strategies
from storage.testing.codec import OracleBatch, OracleRecord, batch_of, encode_batch, encode_records, seal_batch

SEED = bytes(range(16))
MASK = 2**64 - 1
# Of the authors' reference: the fingerprints of nothing, of one byte and so on, counting up from 0, under this seed.
VECTORS = ("a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45")


def turned(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK


def sip_round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a = (a + b) & MASK
    b = turned(b, 13) ^ a
    a = turned(a, 32)
    c = (c + d) & MASK
    d = turned(d, 16) ^ c
    a = (a + d) & MASK
    d = turned(d, 21) ^ a
    c = (c + b) & MASK
    b = turned(b, 17) ^ c
    return a, b, turned(c, 32), d


def siphash(seed: bytes, data: bytes) -> bytes:
    low, high = (int.from_bytes(seed[at : at + 8], "little") for at in (0, 8))
    state = (
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D ^ 0xEE,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    )
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        a, b, c, d = state
        state = sip_round(*sip_round(a, b, c, d ^ word))
        state = (state[0] ^ word, *state[1:])
    halves = []
    a, b, c, d = state
    state = (a, b, c ^ 0xEE, d)
    for _ in range(2):
        for _ in range(4):
            state = sip_round(*state)
        a, b, c, d = state
        halves.append((a ^ b ^ c ^ d).to_bytes(8, "little"))
        state = (a, b ^ 0xDD, c, d)
    return b"".join(halves)


def read(data: bytes) -> RecordBatch:
    batch = next(read_batches(data))
    assert isinstance(batch, RecordBatch)
    return batch


def with_room(keys: int) -> OffsetMap:
    return OffsetMap((keys + 1) * SLOT_BYTES, 1.0, SEED)


def records_data_of(batch: OracleBatch) -> bytes | None:
    return encode_records(batch) if batch.codec and batch.records else None


@pytest.mark.parametrize("size", range(len(VECTORS)))
def test_fingerprints_are_those_of_the_reference(size: int) -> None:
    assert fingerprint(SEED, bytes(range(size))).hex() == VECTORS[size] == siphash(SEED, bytes(range(size))).hex()


@given(seed=st.binary(min_size=16, max_size=16), data=st.binary(max_size=300))
def test_fingerprints_are_those_of_the_definition(seed: bytes, data: bytes) -> None:
    assert fingerprint(seed, data) == siphash(seed, data)


@given(batches=st.lists(strategies.data_batches(base_offsets=st.just(0)), max_size=6), keys_max=st.integers(1, 12))
def test_it_holds_what_a_dict_holds(batches: list[OracleBatch], keys_max: int) -> None:
    """Batch by batch from an offset on, up to exactly the key for which there is no room."""
    offsets, expected, latest = with_room(keys_max), {}, -1
    first = len(batches)
    for oracle in batches:
        took_all = True
        for record in oracle.records:
            if record.key is not None and record.offset >= first:
                if len(expected) >= keys_max:
                    took_all = False
                    break
                expected[record.key] = latest = record.offset
        if took_all and oracle.last_offset >= first:
            latest = oracle.last_offset
        assert offsets.fill(read(encode_batch(oracle)), records_data_of(oracle), first) is took_all
        assert (offsets.count, offsets.latest_offset) == (len(expected), latest)
        if not took_all:
            break
    assert {key: offsets.find(key) for key in expected} == expected
    assert offsets.find(b"a key that nobody has") == -1


def test_it_takes_as_many_keys_as_its_memory_and_its_load_allow() -> None:
    offsets = OffsetMap(1000 * SLOT_BYTES + 7, 0.9, SEED)
    assert (offsets.slots, offsets.keys_max) == (1000, 900)
    assert [offsets.add(b"%d" % number, number) for number in range(902)] == [True] * 900 + [False] * 2
    assert (offsets.count, offsets.latest_offset) == (900, 899)
    assert all(offsets.find(b"%d" % number) == number for number in range(900))
    assert all(offsets.find(b"%d" % number) == -1 for number in range(900, 2000))


def test_a_known_key_needs_room_as_well() -> None:
    offsets = with_room(2)
    assert [offsets.add(key, offset) for offset, key in enumerate((b"a", b"a", b"b", b"a"))] == [
        True,
        True,
        True,
        False,
    ]
    assert (offsets.find(b"a"), offsets.latest_offset) == (1, 2)


@pytest.mark.parametrize(("memory_bytes", "load"), [(0, 0.9), (SLOT_BYTES, 1.0), (10 * SLOT_BYTES, 0.0)])
def test_a_map_without_room_is_empty(memory_bytes: int, load: float) -> None:
    offsets = OffsetMap(memory_bytes, load, SEED)
    assert offsets.keys_max == 0
    assert not offsets.add(b"a", 0)
    assert offsets.find(b"a") == -1


@pytest.mark.parametrize("arguments", [(-1, 0.9, SEED), (100, 1.5, SEED), (100, -0.1, SEED), (100, 0.9, b"short")])
def test_what_makes_no_map_is_refused(arguments: tuple[int, float, bytes]) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        OffsetMap(*arguments)


def test_more_memory_than_there_is_is_refused() -> None:
    with pytest.raises(MemoryError):
        OffsetMap(2**61, 0.9, SEED)


BATCH = batch_of([OracleRecord(5, 0, b"k", b"v"), OracleRecord(6, 0, b"l", None)])


@pytest.mark.parametrize(
    "data",
    [
        seal_batch(BATCH, encode_records(BATCH)[:-1]),
        seal_batch(BATCH, encode_records(BATCH) + b"x"),
        encode_batch(batch_of([OracleRecord(4, 0, b"k")], base_offset=5)),
        seal_batch(batch_of([OracleRecord(5, 0, b"k")]), encode_records(BATCH)),
    ],
)
def test_records_that_are_not_the_batchs_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedRecordsError, match="within its offsets"):
        with_room(10).fill(read(data), None, 0)
