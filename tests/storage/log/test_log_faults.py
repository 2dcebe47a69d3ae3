"""What a log does when a file operation fails: each of them does once, in every way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, SETTINGS, LogOnMemory, sent

from storage.errors import DiskFullError, PoisonedLogError
from storage.log.flushing import Durability
from storage.testing.faults import Cut, Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INDEX = f"{0:020}.index"
TIME_INDEX = f"{0:020}.timeindex"


def actions(lab: LogOnMemory) -> Iterator[tuple[str, Callable[[], object]]]:
    """Everything that writes, with segments that roll on the way."""
    log = lab.log
    yield "append", lambda: lab.produce(b"in a transaction", 0, transactional=True)
    for number in range(14):
        yield "append", lambda number=number: log.append_as_leader(sent(b"%d" % number * 300), leader_epoch=2)
    yield "append", lambda: lab.end_transaction(committed=False)
    yield "flush", lab.run_tasks
    yield "flush", log.flush
    yield "roll", log.roll
    yield "truncate", lambda: log.truncate_to(6)
    yield "append", lambda: log.append_as_leader(sent(b"x" * 300), leader_epoch=3)
    yield "close", log.close


def offsets(lab: LogOnMemory) -> list[int]:
    return [batch.last_offset for batch in lab.log.view.batches(lab.log.view.start_offset)]


def steps_of_a_run(durability: Durability) -> tuple[int, int]:
    """Which steps belong to the actions."""
    lab = LogOnMemory(SETTINGS, durability=durability)
    first = lab.files.steps
    for _, act in actions(lab):
        act()
    return first, lab.files.steps


@pytest.mark.parametrize("effect", [Effect.DISK_FULL, Effect.DISK_ERROR])
@pytest.mark.parametrize("durability", list(Durability))
def test_a_step_that_fails_refuses_an_append_or_poisons_the_log(effect: Effect, durability: Durability) -> None:
    first, end = steps_of_a_run(durability)
    outcomes = {"refused": 0, "poisoned": 0, "unnoticed": 0}
    for step in range(first, end):
        lab = LogOnMemory(SETTINGS, durability=durability)
        lab.files.cut = Cut(step, effect, seed=step)
        outcomes[run_with_failure(lab)] += 1
    assert outcomes["poisoned"] > 20
    assert outcomes["refused"] > 10 if effect is Effect.DISK_FULL else outcomes["refused"] == 0
    assert outcomes["unnoticed"] < 10  # a flush in the background that fails after the last append


def run_with_failure(lab: LogOnMemory) -> str:
    """Go through all actions; what fails is tried again, which tells how the log took it."""
    outcome = "unnoticed"
    for name, act in actions(lab):
        before = offsets(lab)
        end_before = lab.log.view.end_offset
        try:
            act()
        except DiskFullError:
            assert outcome == "unnoticed"
            assert (offsets(lab), lab.log.view.end_offset) == (before, end_before)
            outcome = "refused"
            act()
        except PoisonedLogError:
            if name in ("append", "flush", "roll"):
                assert offsets(lab)[: len(before)] == before
            outcome = "poisoned"
        else:
            assert outcome != "poisoned" or name in ("close", "flush")
    return outcome


def test_a_refused_append_leaves_the_files_as_they_were() -> None:
    lab = LogOnMemory()
    for number in range(9):
        lab.log.append_as_leader(sent(b"%d" % number * 400))
    before = lab.contents()
    lab.files.cut = Cut(lab.files.steps, Effect.DISK_FULL, seed=3)
    with pytest.raises(DiskFullError):
        lab.log.append_as_leader(sent(b"x" * 400))
    assert lab.contents() == before
    assert lab.log.append_as_leader(sent(b"x" * 400)).first_offset == 9


def test_a_disk_that_is_full_takes_what_fits() -> None:
    lab = LogOnMemory({"segment.index.bytes": "1200"})
    lab.files.capacity_bytes = lab.files.free_bytes("/") and sum(map(len, lab.contents().values())) + 1000
    lab.log.append_as_leader(sent(b"x" * 500))
    with pytest.raises(DiskFullError):
        lab.log.append_as_leader(sent(b"x" * 500))
    assert lab.log.append_as_leader(sent(b"x" * 50)).first_offset == 1
    lab.log.close()
    assert lab.open().view.end_offset == 2


def test_an_index_without_space_refuses_the_append_before_anything_is_written() -> None:
    lab = LogOnMemory({"segment.index.bytes": "65536", "index.interval.bytes": "0"})
    refused = []
    for number in range(1200):
        data = sent([(NOW_MS + number, b"%d" % number)])
        before = lab.contents()
        lab.files.capacity_bytes = _held_bytes(lab) + len(data)  # enough for the log, and for no index
        steps = lab.files.steps
        try:
            lab.log.append_as_leader(data)
        except DiskFullError:
            refused.append(number)
            assert (lab.contents(), lab.files.steps) == (before, steps)
            lab.files.capacity_bytes = None
            lab.log.append_as_leader(data)
    assert len(refused) == 4  # where 4 KiB are used of an index, and where 8 KiB are
    lab.files.capacity_bytes = None
    lab.log.close()
    assert lab.open().view.end_offset == 1200


def test_a_disk_without_any_space_finishes_the_indexes_of_whatever_was_appended() -> None:
    lab = LogOnMemory({"segment.index.bytes": "65536", "index.interval.bytes": "0"})
    for number in range(400):
        lab.files.capacity_bytes = None
        lab.log.append_as_leader(sent([(NOW_MS + number, b"%d" % number)]))
        lab.files.capacity_bytes = 0
        lab.log.rest()  # ends the time index with the largest timestamp
        assert not lab.log.is_poisoned
        assert len(lab.contents()[TIME_INDEX]) == 12 * (number + 1)


def test_a_log_at_rest_takes_no_space_for_its_indexes_and_has_it_again_for_the_next_append() -> None:
    lab = LogOnMemory({"segment.index.bytes": "65536", "index.interval.bytes": "0"})
    for number in range(3):
        lab.log.append_as_leader(sent([(NOW_MS + number, b"%d" % number)]))
    assert len(lab.contents()[INDEX]) == 65536
    assert lab.log.rest()
    assert (len(lab.contents()[INDEX]), len(lab.contents()[TIME_INDEX])) == (2 * 8, 2 * 12)
    lab.files.capacity_bytes = _held_bytes(lab)
    lab.log.advance_start(1)  # needs no room in an index, and so no space
    before = lab.contents()
    with pytest.raises(DiskFullError):
        lab.log.append_as_leader(sent([(NOW_MS + 3, b"3")]))
    assert lab.contents() == before
    lab.files.capacity_bytes = None
    lab.log.append_as_leader(sent([(NOW_MS + 3, b"3")]))
    assert lab.log.view.bases == (0,)
    assert len(lab.contents()[INDEX]) == 65536
    lab.log.rest()
    lab.log.close()
    assert lab.open().view.end_offset == 4


def _held_bytes(lab: LogOnMemory) -> int:
    """How much of a disk the log takes."""
    lab.files.capacity_bytes = 2**40
    return 2**40 - lab.files.free_bytes("/")


def test_a_roll_that_finds_no_space_leaves_no_files() -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent(b"x"))
    names = set(lab.contents())
    lab.files.capacity_bytes = sum(map(len, lab.contents().values())) + 1300
    with pytest.raises(DiskFullError):
        lab.log.roll()
    assert set(lab.contents()) == names
    lab.files.capacity_bytes = None
    lab.log.roll()
    assert lab.log.view.bases == (0, 1)


def test_a_failed_flush_poisons_the_log_and_readers_go_on() -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent(b"x"))
    lab.files.cut = Cut(lab.files.steps, Effect.DISK_ERROR)
    with pytest.raises(PoisonedLogError, match="takes nothing more"):
        lab.log.flush()
    assert lab.log.is_poisoned
    assert lab.log.recovery_point == 0
    for act in (
        lambda: lab.log.append_as_leader(sent(b"y")),
        lab.log.flush,
        lab.log.roll,
        lambda: lab.log.truncate_to(0),
    ):
        with pytest.raises(PoisonedLogError):
            act()
    assert [record.value for batch in lab.log.read(0).batches for record in batch.records()] == [b"x"]
    lab.log.close()


def test_a_flush_that_fails_in_the_background_shows_at_the_next_append() -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent(b"x"))
    lab.log.roll()
    lab.files.cut = Cut(lab.files.steps, Effect.DISK_ERROR)
    lab.run_tasks()
    with pytest.raises(PoisonedLogError):
        lab.log.append_as_leader(sent(b"y"))


def test_an_append_is_not_taken_after_the_flush_of_its_own_roll_has_failed() -> None:
    first, end = steps_of_a_run(Durability.BUFFERED)
    taken = 0
    for step in range(first, end):
        lab = LogOnMemory()
        lab.log._in_background = lambda task: task()
        lab.files.cut = Cut(step, Effect.DISK_ERROR)
        for number in range(12):
            before = lab.log.view.end_offset
            try:
                lab.log.append_as_leader(sent(b"%d" % number * 400))
            except PoisonedLogError:
                assert lab.log.view.end_offset == before
                break
            assert not lab.log.is_poisoned
            taken += 1
    assert taken


def test_producers_that_are_silent_are_forgotten() -> None:
    lab = LogOnMemory()
    lab.produce(b"x", 0)
    lab.clock.ms += 86_400_000
    lab.log.expire_producers()
    assert lab.log.producers.states() == []


def test_synced_appends_survive_a_loss_of_power() -> None:
    for seed in range(20):
        lab = LogOnMemory(durability=Durability.SYNCED)
        for number in range(12):
            lab.log.append_as_leader(sent(b"%d" % number * 400))
        files = lab.files.after_power_loss(seed)
        logs = sorted(name for name in files.names("/topic-0") if name.endswith(".log"))
        assert len(logs) > 1
        found = b"".join(files.read(f"/topic-0/{name}") for name in logs)
        assert found == b"".join(data for name, data in sorted(lab.contents().items()) if name.endswith(".log"))
