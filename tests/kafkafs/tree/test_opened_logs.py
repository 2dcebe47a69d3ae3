"""A log that cannot be opened for writing is read, said once, and tried again without holding readers up."""

from __future__ import annotations

import errno
import logging
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kafkafs.tree.opened_logs import RETRY_S, OpenedLogs
from storage.budget import MustWaitError
from storage.clock import Clock
from storage.errors import UnknownPartitionError
from storage.log.followed_log import FollowedLog
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ticking(Clock):
    def __init__(self) -> None:
        self.s = 100.0

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def elapsed_s(self) -> float:
        return self.s


class FullDisk:
    """Opens logs as a store does, unless there is no space."""

    def __init__(self, clock: Ticking) -> None:
        self.error: Exception | None = None
        self.takes_s = 0.0
        self.tries = 0
        self._clock = clock

    def __call__(self, request: object) -> object:
        self.tries += 1
        self._clock.s += self.takes_s
        if self.error is not None:
            raise self.error
        return SimpleNamespace(request=request)


@pytest.fixture
def clock() -> Ticking:
    return Ticking()


@pytest.fixture
def disk(clock: Ticking) -> FullDisk:
    return FullDisk(clock)


@pytest.fixture
def store(clock: Ticking) -> Iterator[Store]:
    files = MemoryFiles()
    with Store.create(["/a"], files=files, clock=clock) as made:
        made.topics.create("t", 2)
    with Store.open(["/a"], mode=Mode.READ_WRITE, files=files, clock=clock) as opened:
        yield opened


@pytest.fixture
def logs(store: Store, clock: Ticking, disk: FullDisk, monkeypatch: pytest.MonkeyPatch) -> OpenedLogs:
    real = store.log

    def log(topic: str, partition: int) -> object:
        disk(None)
        return real(topic, partition)

    monkeypatch.setattr(store, "log", log)
    return OpenedLogs(store, clock)


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/t-0/00000000000000000000.index")


def test_what_can_be_opened_is(logs: OpenedLogs, store: Store) -> None:
    assert logs.get("t", 0) == (store.open_logs()["t", 0], None)


def test_what_cannot_be_written_is_read_until_it_can(
    logs: OpenedLogs, store: Store, disk: FullDisk, clock: Ticking, caplog: pytest.LogCaptureFixture
) -> None:
    disk.error = no_space()
    first, refusal = logs.get("t", 0)
    assert isinstance(first, FollowedLog)
    assert refusal is disk.error
    assert first.view.end_offset == 0
    assert logs.get("t", 0) == (first, refusal)
    assert disk.tries == 1
    clock.s += RETRY_S
    assert logs.get("t", 0) == (first, refusal)
    assert disk.tries == 2
    disk.error = None
    assert logs.get("t", 1)[1] is None, "another partition has nothing to do with it"
    assert logs.get("t", 0) == (first, refusal)
    clock.s += RETRY_S
    assert logs.get("t", 0) == (store.open_logs()["t", 0], None)
    said = [record.message for record in caplog.records if record.name.endswith("opened_logs")]
    assert [line.partition(":")[0] for line in said] == ["t-0 can be read, and not written", "t-0 can be written again"]
    assert all(record.levelno == logging.WARNING for record in caplog.records if "t-0" in record.message)


def test_a_thread_that_opens_no_log_changes_nothing(
    logs: OpenedLogs, disk: FullDisk, clock: Ticking, caplog: pytest.LogCaptureFixture
) -> None:
    disk.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    logs.get("t", 0)
    clock.s += RETRY_S * 2
    disk.error = MustWaitError()
    with pytest.raises(MustWaitError):
        logs.get("t", 0)
    disk.error = None
    with caplog.at_level(logging.WARNING):
        assert logs.get("t", 0)[1] is None
    assert "t-0 can be written again" in caplog.messages


def test_what_takes_long_to_try_is_tried_seldom(logs: OpenedLogs, disk: FullDisk, clock: Ticking) -> None:
    disk.error, disk.takes_s = no_space(), 2.0
    logs.get("t", 0)
    clock.s += 19.0
    logs.get("t", 0)
    assert disk.tries == 1
    clock.s += 1.0
    logs.get("t", 0)
    assert disk.tries == 2


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), UnknownPartitionError("there is none")])
def test_what_is_gone_is_gone(logs: OpenedLogs, disk: FullDisk, clock: Ticking, error: Exception) -> None:
    disk.error = no_space()
    logs.get("t", 0)
    disk.error = error
    clock.s += RETRY_S
    with pytest.raises(type(error)):
        logs.get("t", 0)
    disk.error = None
    assert logs.get("t", 0)[1] is None
