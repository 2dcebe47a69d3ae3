"""Logs that brokers wrote, left open, or that were damaged, followed as they are; not one byte of them changes."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.config import TopicConfig
from storage.errors import CorruptBatchError, FramingError
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.record import read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.log.view import LogView

pytestmark = pytest.mark.golden

DATASETS = ("kafka-3.9", "kafka-2.2", "kafka-3.9-killed", "kafka-3.9-compaction", "kafka-3.9-recovery")
State = dict[str, tuple[int, int, int, str]]


def directories(root: Path) -> Iterator[Path]:
    for directory in sorted({log.parent for log in root.rglob("*.log*")}):
        if ".dump" not in str(directory) and directory.name.rpartition("-")[2].isdigit():
            yield directory


def state_of(directory: Path) -> State:
    found: State = {}
    for path in (directory, *sorted(directory.iterdir())):
        status = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[path.name] = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, digest)
    return found


def plainly_read(directory: Path) -> list[tuple[str, bytes]]:
    """Every batch up to what can be none, by the segment that it is in."""
    found = []
    for log in sorted([*directory.glob("*.log"), *directory.glob("*.log.swap")]):
        try:
            for batch in read_batches(log.read_bytes()):
                found.append((log.name, bytes(batch.view(0, batch.size_bytes))))  # noqa: PERF401 - up to an error
        except FramingError:
            continue
    return found


def shown(view: LogView) -> list[tuple[str, bytes]]:
    return [
        (segment.name(".log"), bytes(batch.view(0, batch.size_bytes)))
        for segment in view.segments
        for batch in segment.batches()
    ]


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("is_trusted", [False, True])
def test_every_batch_is_shown(name: str, *, is_trusted: bool, datasets: Callable[[str], Path]) -> None:
    count = 0
    config = TopicConfig.resolve({})
    for directory in directories(datasets(name)):
        if is_trusted and name == "kafka-3.9-recovery":
            continue
        before = state_of(directory)
        followed = FollowedLog(
            Clock(),
            Files().directory(directory),
            config,
            recovery_point=2**62 * is_trusted,
            producer_expiration_ms=2**62,
        )
        view = followed.view
        expected = plainly_read(directory)
        assert shown(view) == expected
        assert len(list(view.batches(view.start_offset))) == len(expected)
        assert view.bases[0] == view.start_offset
        assert all(first < second for first, second in pairwise(view.bases))
        assert view.start_offset <= view.last_stable_offset <= view.end_offset
        for timestamp in (-1, -2, -3, 0, 2**62):
            with suppress(*([CorruptBatchError] if name == "kafka-3.9-recovery" else [])):
                followed.list_offset(timestamp)
                followed.find_timestamp(max(timestamp, 0))
        _ = followed.producers, followed.epochs
        assert followed.view is view
        followed.close()
        assert state_of(directory) == before
        count += len(expected)
    assert count >= 100 or is_trusted
