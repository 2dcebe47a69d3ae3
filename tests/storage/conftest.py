"""Stores in memory, with logs that only say how they were treated."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.errors import PoisonedLogError
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from storage.config import TopicConfig
    from storage.files import Files
    from storage.store.log_opener import LogRequest
    from storage.topics.checkpointing import PartitionCheckpoints


class StandingClock(Clock):
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms


@dataclass
class FakeLog:
    """A log that was appended to up to an offset."""

    request: LogRequest
    checkpoints: PartitionCheckpoints
    config: TopicConfig
    start_offset: int = 0
    first_base_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    is_poisoned: bool = False
    fails_to_close: bool = False
    closed: int = 0

    @property
    def view(self) -> SimpleNamespace:
        segments = (SimpleNamespace(base_offset=self.first_base_offset),)
        return SimpleNamespace(start_offset=self.start_offset, end_offset=self.end_offset, segments=segments)

    def close(self) -> None:
        self.closed += 1
        if self.fails_to_close:
            raise PoisonedLogError("the log takes nothing more")
        if not self.is_poisoned:
            self.recovery_point = self.end_offset


@dataclass
class Stores:
    """Opens stores in some files, /a and /b by default; `logs` are those that were opened, in their order."""

    files: Files = field(default_factory=MemoryFiles)
    clock: StandingClock = field(default_factory=StandingClock)
    paths: tuple[object, ...] = ("/a", "/b")
    logs: list[FakeLog] = field(default_factory=list)
    seed: int = 0

    def open_log(self, request: LogRequest, checkpoints: PartitionCheckpoints) -> FakeLog:
        self.logs.append(FakeLog(request, checkpoints, request.config, start_offset=request.start_offset))
        return self.logs[-1]

    def create(self, **more: object) -> Store:
        return Store.create(self.paths, **self._given(more))

    def open(self, mode: Mode = Mode.READ_WRITE, **more: object) -> Store:
        return Store.open(self.paths, mode=mode, **self._given(more))

    def read(self, **more: object) -> Store:
        return self.open(Mode.READ_ONLY, **more)

    def on(self, files: Files) -> Stores:
        """The same stores as the next process finds them."""
        return Stores(files, self.clock, self.paths, seed=self.seed + 1)

    def _given(self, more: dict[str, object]) -> dict[str, object]:
        entropy = random.Random(self.seed).randbytes
        return {"files": self.files, "clock": self.clock, "open_log": self.open_log, "entropy": entropy, **more}


@pytest.fixture
def stores() -> Stores:
    return Stores()


@pytest.fixture
def store(stores: Stores) -> Store:
    return stores.create()
