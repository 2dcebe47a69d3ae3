"""Batches that have their places are appended together: all of them or none, however many there are."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from memory_logs import LogOnMemory, sent
from soundness import check_sound

from storage.errors import ChecksumError, UnexpectedOffsetError
from storage.record.rewriting import assign_offset

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 200  # of more than one segment's size


def placed(first_offset: int, count: int = COUNT) -> Iterator[bytearray]:
    for offset in range(first_offset, first_offset + count):
        data = bytearray(sent(b"%d" % offset * 20))
        assign_offset(data, base_offset=offset, leader_epoch=3)
        yield data


@pytest.fixture
def log() -> LogOnMemory:
    made = LogOnMemory()
    made.produce(b"before", 0)
    return made


def test_readers_see_all_at_once(log: LogOnMemory) -> None:
    seen = []

    def watched() -> Iterator[bytearray]:
        for data in placed(1):
            seen.append(log.log.view.end_offset)
            yield data

    log.log.append_as_follower(watched())
    assert set(seen) == {1}
    assert log.log.view.end_offset == 1 + COUNT
    assert len(log.log.view.segments) > 3
    assert log.log.epochs.latest_epoch == 3
    check_sound(log.log)


def test_what_fails_half_way_leaves_nothing(log: LogOnMemory) -> None:
    def torn() -> Iterator[bytearray]:
        yield from placed(1)
        raise OSError(errno.EIO, "the source cannot be read")

    def with_gap() -> Iterator[bytearray]:
        yield from placed(1)
        yield from placed(COUNT)

    def damaged() -> Iterator[bytearray]:
        yield from placed(1)
        data = next(placed(1 + COUNT))
        data[-1] ^= 1
        yield data

    for batches, error in ((torn, OSError), (with_gap, UnexpectedOffsetError), (damaged, ChecksumError)):
        with pytest.raises(error):
            log.log.append_as_follower(batches())
        assert log.values() == [b"before"]
        check_sound(log.log)
    log.log.append_as_follower(placed(1))
    assert log.log.view.end_offset == 1 + COUNT
