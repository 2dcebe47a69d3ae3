"""An exception in a change of a log poisons it, but for a full disk where all was undone."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, PRODUCER_EXPIRATION_MS, LogOnMemory, sent

from storage.errors import DiskFullError, LogChangedError, PoisonedLogError, StorageError
from storage.log.flushing import Durability
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.poison import Poison
from storage.log.producers.producers import ProducerStates
from storage.testing.faults import BREAKS, Cut, Effect, InterruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SEGMENTS = {"segment.bytes": "1000", "segment.index.bytes": "120", "index.interval.bytes": "128"}
FULL = OSError(errno.ENOSPC, "No space left on device", "/t-0")


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.EIO, "Input/output error"), PoisonedLogError),
        (FULL, PoisonedLogError),
        (MemoryError(), PoisonedLogError),
        (StorageError("something else"), PoisonedLogError),
        (ZeroDivisionError("a bug"), PoisonedLogError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (SystemExit(), SystemExit),
        (InterruptError(), InterruptError),
    ],
)
def test_whatever_leaves_a_change_poisons(error: BaseException, raised: type[BaseException]) -> None:
    for name in ("changing", "poisoning"):
        poison = Poison("/t-0")
        with pytest.raises(raised), getattr(poison, name):
            raise error
        with pytest.raises(PoisonedLogError, match=r"takes nothing more since writing failed: .+"):
            poison.check()


def test_a_full_disk_that_was_undone_is_refused() -> None:
    poison = Poison("/t-0")
    with pytest.raises(DiskFullError, match="nothing was changed"), poison.changing, poison.refusing:
        raise FULL
    poison.settle()
    poison.check()
    with pytest.raises(PoisonedLogError), poison.changing, poison.refusing:
        raise PoisonedLogError("what a failed change left behind cannot be removed")
    with pytest.raises(PoisonedLogError, match="cannot be removed"):
        poison.check()


def test_a_change_that_ended_unnoticed_poisons() -> None:
    """As when an interrupt comes just before a guard would have heard of an error."""
    poison = Poison("/t-0")
    poison.changing.__enter__()
    poison.check()
    poison.settle()
    with pytest.raises(PoisonedLogError, match="interrupted"):
        poison.check()


def test_the_first_error_is_told() -> None:
    poison = Poison("/t-0")
    for error in (MemoryError("the first"), OSError(errno.EIO, "the second")):
        with pytest.raises(PoisonedLogError, match="the first"), poison.changing:
            raise error


class FailingProducers(ProducerStates):
    """Producers that fail when a batch's bytes are in the log's file, if they are told to."""

    error: BaseException | None = None

    def set_end_offset(self, end_offset: int) -> None:
        if self.error is not None:
            raise self.error
        super().set_end_offset(end_offset)


@pytest.mark.parametrize("error", [MemoryError(), InterruptError(), ZeroDivisionError(), StorageError("some error")])
@pytest.mark.parametrize("count", [1, 3])
def test_no_offset_is_given_twice_after_an_append_that_broke_off(error: BaseException, count: int) -> None:
    lab = LogOnMemory()
    lab.log.close()
    rng, expiration_ms = random.Random(0), PRODUCER_EXPIRATION_MS
    parts = open_sound_log(
        lab.clock, lab.files.directory(DIRECTORY), lab.config, rng=rng, producer_expiration_ms=expiration_ms
    )
    producers = FailingProducers(lab.files.directory(DIRECTORY), expiration_ms=expiration_ms)
    lab.log = Log(lab.clock, lab.files.directory(DIRECTORY), lab.config, parts._replace(producers=producers), rng=rng)
    lab.log.append_as_leader(sent(b"zero"))
    producers.error = error
    with pytest.raises((PoisonedLogError, InterruptError)):
        lab.log.append_all_as_leader([sent(b"one")] * count)
    producers.error = None
    assert lab.log.is_poisoned
    assert lab.values() == [b"zero"]
    with pytest.raises(PoisonedLogError):
        lab.log.append_as_leader(sent(b"another one"))
    lab.log.close()
    lab.open_after_crash(lab.files.after_process_death())
    assert lab.values() in ([b"zero"], [b"zero", b"one"])
    assert lab.log.append_as_leader(sent(b"next")).first_offset == len(lab.values()) - 1


def test_what_breaks_off_taking_batches_together_leaves_none_of_them() -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent(b"zero"))

    def batches() -> Iterator[bytes]:
        yield bytes(placed(b"one", 1))
        raise InterruptError

    with pytest.raises(InterruptError):
        lab.log.append_as_follower(batches())
    assert not lab.log.is_poisoned
    assert lab.values() == [b"zero"]
    assert lab.log.append_as_leader(sent(b"one")).first_offset == 1


def placed(value: bytes, offset: int) -> bytes:
    """A batch in its place, as a leader would have stored it."""
    other = LogOnMemory()
    for number in range(offset):
        other.log.append_as_leader(sent(b"%d" % number))
    other.log.append_as_leader(sent(value))
    batch = other.log.view.find(offset)
    assert batch is not None
    return bytes(batch.view(0, batch.size_bytes))


def changes(lab: LogOnMemory) -> dict[str, Callable[[], object]]:
    """Everything that changes a log of some segments."""
    log, second = lab.log, lab.log.view.bases[1]
    return {
        "append": lambda: log.append_as_leader(sent(b"x" * 300), leader_epoch=5),
        "append together": lambda: log.append_all_as_leader([sent(b"x" * 300)] * 4, leader_epoch=5),
        "roll": log.roll,
        "flush": log.flush,
        "flush what was rolled": lab.run_tasks,
        "truncate": lambda: log.truncate_to(3),
        "forget epochs": lambda: log.truncate_to(log.view.end_offset - 1),
        "remove": lambda: log.remove_before(second),
        "replace": lambda: log.replace(log.view.segments[:1], []),
        "close": log.close,
    }


def log_of_segments(durability: Durability) -> LogOnMemory:
    lab = LogOnMemory(SEGMENTS, durability=durability)
    for number in range(9):
        lab.log.append_as_leader(sent(b"%d" % number * 300), leader_epoch=number // 3)
    lab.tasks[:-1] = []
    return lab


@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize("effect", BREAKS)
@pytest.mark.parametrize("name", list(changes(log_of_segments(Durability.BUFFERED))))
def test_an_exception_at_any_step_of_a_change_poisons(name: str, effect: Effect, durability: Durability) -> None:
    step = 0
    while True:
        lab = log_of_segments(durability)
        lab.files.cut = Cut(lab.files.steps + step, effect, seed=step)
        before = lab.values()
        with suppress(PoisonedLogError, InterruptError):
            changes(lab)[name]()
        if lab.files.steps <= lab.files.cut.step:
            break
        assert lab.log.is_poisoned
        for again, act in changes(lab).items():
            if again not in ("flush what was rolled", "close"):
                with pytest.raises(PoisonedLogError):
                    act()
        after = lab.values()
        assert after in (before, before[: len(after)], before[-len(after) :])
        step += 1
    assert step > 0


def test_what_is_refused_before_a_change_does_not_poison() -> None:
    lab = log_of_segments(Durability.BUFFERED)
    for act in (lambda: lab.log.remove_before(1), lambda: lab.log.replace(lab.log.view.segments[-1:], [])):
        with pytest.raises(LogChangedError):
            act()
    assert not lab.log.is_poisoned
    lab.log.append_as_leader(sent(b"x"))
