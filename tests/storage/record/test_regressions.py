"""Bugs that a fuzzer or a user once found, each by its smallest input."""

from __future__ import annotations

import mmap
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from storage.errors import FramingError, MalformedRecordsError
from storage.record import decode_control, read_batches
from storage.record.columns import read_columns
from storage.testing.codec import (
    ABORT,
    GZIP,
    OracleRecord,
    batch_of,
    compress,
    decode_batch,
    encode_control_key,
    encode_end_transaction,
    encode_entry,
    entry_of,
    seal_batch,
    wrapper_of,
)

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_LENGTH = 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UNKNOWN_CODEC = 6
RECORD = OracleRecord(offset=5, timestamp=0, key=b"k", value=b"v")


def test_offsets_in_a_wrapper_wrap_around_as_on_the_jvm() -> None:
    inner = [encode_entry(entry_of(replace(RECORD, offset=offset), 1)) for offset in (3, INT64_MIN)]
    wrapper = wrapper_of([replace(RECORD, offset=INT64_MAX)], 1, GZIP)
    data = encode_entry(replace(wrapper, value=compress(GZIP, b"".join(inner))))
    (batch,) = read_batches(data)
    offsets = [record.offset for record in batch.records()]
    assert offsets == [2, INT64_MAX]
    assert offsets == [record.offset for record in decode_batch(data).records]


def test_a_marker_of_a_negative_version_is_refused() -> None:
    with pytest.raises(MalformedRecordsError):
        decode_control(encode_control_key(ABORT), encode_end_transaction(0, version=-1))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_an_unknown_codec_is_an_error_with_its_place(magic: int) -> None:
    if magic == 2:
        data = seal_batch(replace(batch_of([RECORD]), attributes=UNKNOWN_CODEC), b"")
    else:
        data = encode_entry(replace(entry_of(RECORD, magic), attributes=UNKNOWN_CODEC))
    (batch,) = read_batches(data, origin=100)
    with pytest.raises(FramingError) as of_batch:
        _ = batch.codec
    with pytest.raises(FramingError) as of_columns:
        list(read_columns(data, origin=100))
    assert [(error.value.position, error.value.offset) for error in (of_batch, of_columns)] == [(100, 5), (100, 5)]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_the_largest_length_there_is_does_not_turn_negative(tmp_path: Path, magic: int) -> None:
    end = LARGEST_LENGTH + 12
    with (tmp_path / "sparse.log").open("w+b") as log:
        log.write(struct.pack(">qiib", 0, LARGEST_LENGTH, 0, magic))
        log.truncate(end + 5)
        with mmap.mmap(log.fileno(), 0, prot=mmap.PROT_READ) as data:
            walk = read_batches(data)
            assert [(batch.position, batch.size_bytes) for batch in walk] == [(0, end)]
            assert (walk.position, walk.missing_bytes) == (end, 13)
            del walk
