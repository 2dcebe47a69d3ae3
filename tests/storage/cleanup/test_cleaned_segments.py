"""Where the segments begin that are to replace others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from storage.cleanup.batch_filter import KeptBatch
from storage.cleanup.cleaned_segments import CleanedSegments, CountedSegments
from storage.config import TopicConfig
from storage.errors import CorruptBatchError
from storage.files import Files
from storage.record.reading import read_batches
from storage.testing.codec import GZIP, OracleRecord, encode_entry, entry_of, wrapper_of

FAR: Final = 2**40


def record(offset: int) -> OracleRecord:
    return OracleRecord(offset, 1, b"k", b"v")


def add(segments: CountedSegments, data: bytes) -> None:
    for batch in read_batches(data):
        segments.add(batch, KeptBatch(data, is_unchanged=True))


def test_a_batch_that_needs_a_segment_and_cannot_begin_one_is_refused() -> None:
    """The header of the last batch has an offset far from those of its records, which others have."""
    segments = CountedSegments(2**30)
    segments.begin(0)
    for offset in (0, 1):
        add(segments, encode_entry(entry_of(record(offset), 0)))
    lying = replace(wrapper_of([record(0), record(1)], 0, GZIP), offset=FAR)
    with pytest.raises(CorruptBatchError, match=f"the offsets 0 to {FAR} where 2 is due"):
        add(segments, encode_entry(lying))
    assert segments.bases == [0]
    add(segments, encode_entry(wrapper_of([record(FAR), record(FAR + 1)], 0, GZIP)))
    assert segments.bases == [0, FAR]


def test_any_number_of_segments_is_written_with_one_descriptor(tmp_path: Path) -> None:
    segments = CleanedSegments(Files().directory(tmp_path), TopicConfig.resolve({}), limit_bytes=2**30)
    segments.begin(0)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(50):
        add(segments, encode_entry(wrapper_of([record(number * FAR), record(number * FAR + 1)], 0, GZIP)))
    segments.flush()
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    segments.finish(modified_ms=1_000_000)
    logs = sorted(tmp_path.glob("*.log.cleaned"))
    assert len(logs) == len(segments.bases) == 50
    assert {each.stat().st_mtime for each in logs} == {1000.0}
    assert len(list(tmp_path.glob("*.index.cleaned"))) == 50
