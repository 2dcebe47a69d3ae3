"""Broken batches: what is outside of a checksum is mended, and of the rest comes what decodes."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from replica_directories import TIME_MS, ReplicaDirectory, Written

from storage.record import read_batches
from storage.replicas import Mended, mend, scan_replica
from storage.replicas.unsummed import Place, unsummed_batches
from storage.testing.memory_files import MemoryFiles

EXAMPLES = min(settings().max_examples, 2000)
COUNT = 12
OFFSET_LENGTH_AND_MAGIC = [*range(4, 12), 16]
FIRST_RECORD = 61


def written(*, records: int = 3) -> ReplicaDirectory:
    return ReplicaDirectory(MemoryFiles(), "/a", [Written(5, (TIME_MS,) * records)] * COUNT, a_segment=COUNT)


def flip(replica: ReplicaDirectory, number: int, at: int, bit: int) -> None:
    name, position, _ = replica.places[number]
    with replica.files.open_writing(f"{replica.path}/{name}") as file:
        byte = file.read_at(position + at, 1)[0]
        file.write_at(position + at, [bytes([byte ^ 1 << bit])])


def mended(replica: ReplicaDirectory) -> Mended:
    replica.files.make_directory("/scratch")
    found = scan_replica(replica.directory, decodes=True)
    return mend(found, replica.files.directory("/scratch"), even_unsummed=True)


def contents(found: Mended) -> bytes:
    pieces = []
    for segment in found.composition.segments:
        for part in segment.ranges:
            with part.directory.open_reading(part.name) as file:
                pieces.append(bytes(file.read_at(part.begin, part.size_bytes)))
    return b"".join(pieces)


@settings(max_examples=EXAMPLES)
@given(
    number=st.integers(1, COUNT - 2),
    at=st.sampled_from(OFFSET_LENGTH_AND_MAGIC),
    bit=st.integers(0, 7),
)
@example(number=2, at=7, bit=0)  # the offset is still one of the batch's own
@example(number=8, at=10, bit=0)  # the length reaches over the batches that follow
def test_a_batch_that_is_broken_outside_of_its_checksum_is_the_one_that_was_written(
    number: int, at: int, bit: int
) -> None:
    replica = written()
    original = replica.directory.read(replica.places[0][0])
    flip(replica, number, at, bit)
    found = mended(replica)
    assert contents(found) == original
    assert found.lost == ()
    (unsummed,) = found.unsummed
    assert unsummed.batch.has_checksum


def test_the_records_before_the_first_that_does_not_decode() -> None:
    replica = written(records=5)
    name, position, size_bytes = replica.places[4]
    sound = replica.directory.read(name)[position : position + size_bytes]
    record_bytes = (size_bytes - FIRST_RECORD) // 5
    flip(replica, 4, FIRST_RECORD + 2 * record_bytes, 6)  # the length of the third record
    found = mended(replica)
    (unsummed,) = found.unsummed
    batch = unsummed.batch
    assert (batch.first_offset, batch.records, batch.declared, batch.has_checksum) == (20, 2, 5, False)
    assert found.lost == ((22, 25),)
    (made,) = read_batches(batch.data)
    assert made.crc_matches
    (before,) = read_batches(sound)
    assert list(made.records()) == list(before.records())[:2]


@pytest.mark.parametrize("data", [b"", bytes(200), b"\xff" * 200, b"\x00" * 12 + b"\x02" * 60])
def test_bytes_that_are_no_batch(data: bytes) -> None:
    assert list(unsummed_batches(data, Place(0, 100, 0, is_followed=False))) == []
