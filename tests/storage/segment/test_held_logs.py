"""Logs that lookups leave open: few, and only as long as their names stay theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import ref

import pytest

from storage.files import Files, LastUsed
from storage.log import index_cache
from storage.log.index_cache import IndexCache
from storage.segment.names import FileName, Kind
from storage.segment.segment import Segment
from storage.segment.segment_files import HELD_LOGS_MAX
from storage.testing.codec import OracleRecord, batch_of, encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence


def segments_in(directory: Path, count: int) -> list[Segment]:
    for base in range(count):
        data = encode_batch(batch_of([OracleRecord(base, 1, None, b"value")]))
        (directory / str(FileName(base, Kind.LOG))).write_bytes(data)
    return [Segment(Files().directory(directory), base) for base in range(count)]


def look_up(segments: Sequence[Segment], *, holds_log: bool = True) -> None:
    for segment in segments:
        found = segment.find(segment.base_offset, holds_log=holds_log)
        assert found is not None
        assert found.last_offset == segment.base_offset


def open_in(directory: Path) -> list[str]:
    links = (each for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    return sorted(target.name for each in links if (target := each.readlink()).parent == directory)


def test_a_lookup_that_holds_leaves_the_log_open_for_the_next(tmp_path: Path) -> None:
    (segment,) = segments_in(tmp_path, 1)
    look_up([segment], holds_log=False)
    assert open_in(tmp_path) == []
    look_up([segment])
    look_up([segment])
    assert open_in(tmp_path) == [str(FileName(0, Kind.LOG))]
    segment.unload()
    assert open_in(tmp_path) == []


def test_a_segment_that_was_used_takes_no_more_memory_than_before(tmp_path: Path) -> None:
    """A log may have a million segments, each of which a report looks into."""
    (segment,) = segments_in(tmp_path, 1)
    indexes = [ref(segment.offset_index), ref(segment.time_index), ref(segment.transaction_index)]
    look_up([segment])
    segment.unload()
    assert [each() for each in indexes] == [None, None, None]
    look_up([segment])


def test_no_more_logs_are_held_than_the_bound(tmp_path: Path) -> None:
    segments = segments_in(tmp_path, HELD_LOGS_MAX + 10)
    look_up(segments)
    assert len(open_in(tmp_path)) == HELD_LOGS_MAX
    look_up(segments)
    assert len(open_in(tmp_path)) == HELD_LOGS_MAX
    del segments
    assert open_in(tmp_path) == []


@pytest.mark.parametrize("change", ["delete", "lose"])
def test_what_is_deleted_takes_no_space(change: str, tmp_path: Path) -> None:
    (segment,) = segments_in(tmp_path, 1)
    look_up([segment])
    getattr(segment.own_files, change)()
    assert open_in(tmp_path) == []
    if change == "lose":
        with pytest.raises(FileNotFoundError):
            segment.find(0, holds_log=True)
        return
    look_up([segment])  # under its new name
    assert open_in(tmp_path) == []


def test_no_more_segments_of_all_logs_have_indexes_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount follows thousands of logs, each of which keeps the indexes of those that it used last."""
    monkeypatch.setattr(index_cache, "_all_segments", LastUsed(3, Segment.unload))
    segments = segments_in(tmp_path, 5)
    indexes = [ref(IndexCache().use(segment).offset_index) for segment in segments]
    assert [index() is None for index in indexes] == [True, True, False, False, False]
    look_up(segments)


def test_segments_that_are_used_in_turn_keep_their_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_cache, "_all_segments", LastUsed(3, Segment.unload))
    segments, cache = segments_in(tmp_path, 2), IndexCache()
    indexes = [segment.offset_index for segment in segments]
    for _ in range(5):
        assert [cache.use(segment).offset_index for segment in segments] == indexes
