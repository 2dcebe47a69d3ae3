"""A store that a test writes while a reader of `kafkafs top` looks at it, under a clock that the test moves."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock

from kafkafs.top.reading import Reader
from storage.files import Files
from storage.record import batches_of_rows
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kafkafs.top.reading import PartitionReading, Reading


class Scene:
    """A writer of a store, and a reader beside it."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self.clock = StandingClock()
        self.written = stack.enter_context(Store.create([path], files=Files(), clock=self.clock))
        self.seen = stack.enter_context(Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=self.clock))
        self.reader = Reader(self.seen, self.clock)

    def topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.written.topics.create(name, partitions, settings or {})

    def append(self, topic: str, records: int, partition: int = 0, *, size: int = 100, ago_ms: int = 0) -> None:
        """Append records one by one, each a batch."""
        for _ in range(records):
            rows = [(self.clock.now_ms() - ago_ms, None, b"x" * size, ())]
            (batch,) = batches_of_rows(rows, base_offset=None)
            self.written.log_to_write(topic, partition).append_as_leader(batch, leader_epoch=0)

    def log_bytes(self, topic: str, partition: int = 0) -> int:
        """Return the size of all segments, as the file system has it."""
        return sum(log.stat().st_size for log in (self.path / f"{topic}-{partition}").glob("*.log"))

    def look(self, after_s: float = 2.0) -> Reading:
        self.clock.ms += round(after_s * 1000)
        reading = self.reader.read()
        assert reading is not None
        return reading

    def look_at(self, topic: str, partition: int = 0, after_s: float = 2.0) -> PartitionReading:
        found = {(each.topic, each.partition): each for each in self.look(after_s).partitions}
        return found[topic, partition]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Make an empty store that is written and looked at."""
    with ExitStack() as stack:
        yield Scene(tmp_path / "store", stack)
