"""A partition of very many segments, most of them without a batch, takes no more than in proportion to them."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from memory_logs import DIRECTORY, PRODUCER_EXPIRATION_MS, LogOnMemory, sent

from kafkafs.content import CountedLog, SizeCache, patience
from kafkafs.render.batch_lines import ValueLines
from kafkafs.tree.known_damage import KnownDamage
from storage.budget import MEMORY, MustWaitError
from storage.log import many_segments
from storage.log.followed_log import FollowedLog
from storage.log.view import Isolation
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.content.seen import SeenFile

EMPTY = 200


@pytest.fixture
def memory() -> LogOnMemory:
    """A log of a segment with a batch, and many after it without one, as no broker has them."""
    made = LogOnMemory(files=MemoryFiles())
    made.log.append_as_leader(sent(b"record"))
    directory = made.files.directory(DIRECTORY)
    for number in range(EMPTY):
        directory.open_writing(f"{made.log.view.end_offset + number:020}.log", create=True).close()
    return made


@pytest.fixture
def log(memory: LogOnMemory) -> FollowedLog:
    return FollowedLog(
        memory.clock, memory.files.directory(DIRECTORY), memory.config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
    )


@pytest.fixture
def counted(memory: LogOnMemory, log: FollowedLog) -> CountedLog:
    return SizeCache(memory.files, None).log(Path(DIRECTORY), log, Isolation.UNCOMMITTED, "values", ValueLines())


class WatchedFiles(tuple["SeenFile", ...]):
    """The files of a view; counts how many were copied."""

    __slots__ = ()
    copied = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(key, slice):
            WatchedFiles.copied += len(found)
        return found


def test_many_files_are_gone_through_without_copying_those_that_follow(counted: CountedLog) -> None:
    seen, positions = counted.look()
    assert counted.count(seen)
    watched = seen._replace(files=WatchedFiles(seen.files), number=seen.number + 1)
    positions.extend(watched)
    assert len(positions.parts) == len(seen.files) == EMPTY + 1
    assert WatchedFiles.copied < 3 * len(seen.files)


def test_a_count_can_be_stopped_between_files_without_a_batch(counted: CountedLog) -> None:
    seen, _ = counted.look()
    assert counted.count(seen, files=seen.files[:1])
    asked = 0

    def is_cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > 50

    assert not counted.count(seen, is_cancelled)
    assert asked == 51
    assert counted.count(seen)


QUESTIONS: dict[str, Callable[[FollowedLog, CountedLog], object]] = {
    "a look at the rendered log": lambda _, counted: counted.look(),
    "a search for an offset": lambda log, _: log.view.find(1),
    "a search for a time": lambda log, _: log.view.find_timestamp(2**60),
    "what a broker answers for a time": lambda log, _: log.view.list_offset(2**60),
    "all segments": lambda log, _: list(log.view.slices(0)),
}


@pytest.mark.parametrize("many", [EMPTY, EMPTY // 2])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_thread_that_others_need_does_not_go_through_many_files(
    log: FollowedLog, counted: CountedLog, monkeypatch: pytest.MonkeyPatch, question: str, many: int
) -> None:
    monkeypatch.setattr(many_segments, "MANY_SEGMENTS", many + 1)
    outcomes: list[BaseException | None] = []

    def ask() -> None:
        MEMORY.never_lease_here()
        try:
            QUESTIONS[question](log, counted)
        except MustWaitError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    assert isinstance(outcomes[0], MustWaitError) == (many < EMPTY)


def test_damage_is_not_looked_for_in_many_files_that_are_not_known_yet(
    log: FollowedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0

    def clock() -> float:
        nonlocal now_s
        now_s += patience.LOOK_S / EMPTY * 2
        return now_s

    monkeypatch.setattr(patience, "monotonic", clock)
    damage = KnownDamage()
    assert not damage.look(log.view)
    looks = 1
    while not damage.look(log.view):  # each goes on after the one before
        now_s += patience.REST_S
        looks += 1
    assert looks < 10
