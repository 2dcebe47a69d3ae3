"""Dispatch: turns go round in their order, and work runs inline once it was quick and nothing can hold it up."""

from __future__ import annotations

from threading import Event, current_thread, main_thread

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kafkafs.mount.dispatch import SHARE_THREADS, Pace, Share, Turn, in_thread
from storage.budget import MustWaitError
from storage.files import turns


def test_no_other_task_runs_while_it_is_free() -> None:
    ran: list[str] = []

    async def other() -> None:
        ran.append("other")

    async def main() -> None:
        turn = Turn()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            for _ in range(3):
                async with turn:
                    ran.append("main")

    trio.run(main)
    assert ran == ["main", "main", "main", "other"]


def test_it_is_granted_in_the_order_of_requests() -> None:
    had: list[int] = []

    async def wait(turn: Turn, number: int) -> None:
        async with turn:
            had.append(number)
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        turn = Turn()
        async with trio.open_nursery() as nursery, turn:
            for number in range(5):
                nursery.start_soon(wait, turn, number)
                await wait_all_tasks_blocked()
            assert had == []

    trio.run(main)
    assert had == [0, 1, 2, 3, 4]


def test_a_cancelled_waiter_does_not_block_others() -> None:
    async def wait(turn: Turn, scope: trio.CancelScope) -> None:
        with scope:
            await turn.take()

    async def main() -> None:
        turn, scope = Turn(), trio.CancelScope()
        async with trio.open_nursery() as nursery:
            await turn.take()
            nursery.start_soon(wait, turn, scope)
            await wait_all_tasks_blocked()
            scope.cancel()
        turn.release()
        with trio.fail_after(5):
            await turn.take()

    trio.run(main)


def test_it_is_given_back_after_an_error() -> None:
    async def fail(turn: Turn) -> None:
        async with turn:
            raise ValueError

    async def main() -> None:
        turn = Turn()
        for _ in range(2):
            with pytest.raises(ValueError, match=r"^$"):
                await fail(turn)

    trio.run(main)


TRIES = 1000


def is_inline() -> bool:
    return current_thread() is main_thread()


@pytest.mark.parametrize("is_long", [False, True])
def test_quick_work_goes_inline_once_it_has_proved_quick(is_long: bool) -> None:
    async def main() -> None:
        pace = Pace()
        ran = [await pace.run(is_inline, is_long=is_long) for _ in range(TRIES)]
        assert not ran[0]
        assert any(ran)
        other = [await pace.run(is_inline, is_long=not is_long) for _ in range(TRIES)]
        assert not other[0]
        assert any(other)

    trio.run(main)


@pytest.mark.parametrize("is_long", [False, True])
def test_no_work_goes_inline_while_other_work_of_its_kind_is_in_a_thread(is_long: bool) -> None:
    async def main() -> None:
        pace, is_over = Pace(), Event()
        for _ in range(TRIES):
            await pace.run(is_inline)
            await pace.run(is_inline, is_long=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pace.run_in_thread, is_over.wait)
            await wait_all_tasks_blocked()
            assert not await pace.run(is_inline, is_long=is_long)
            is_over.set()

    trio.run(main)


def test_work_that_needs_much_memory_begins_again_in_a_thread() -> None:
    def work() -> bool:
        if is_inline():
            raise MustWaitError
        return True

    async def main() -> None:
        pace = Pace()
        for _ in range(TRIES):
            await pace.run(is_inline)
        assert await pace.run(work)
        assert not await pace.run(is_inline), "the next ones are not inline at once"

    trio.run(main)


def test_the_work_of_one_partition_leaves_threads_for_others() -> None:
    async def main() -> None:
        hostile, sound, is_over = Share(), Share(), Event()
        threads = trio.to_thread.current_default_thread_limiter()
        async with trio.open_nursery() as nursery:
            for _ in range(2 * int(threads.total_tokens)):
                nursery.start_soon(hostile.run, is_over.wait)
            await wait_all_tasks_blocked()
            assert threads.borrowed_tokens == SHARE_THREADS
            assert not await sound.run(is_inline)
            is_over.set()

    trio.run(main)


def test_work_in_a_thread_takes_turns_and_the_event_loop_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(turns, "_TURN_S", -1.0)
    monkeypatch.setattr(turns, "sleep", pauses.append)

    async def work_everywhere() -> list[int]:
        turns.give_way()
        numbers = [len(pauses)]
        for run in (in_thread, Share().run):
            await run(turns.give_way)
            numbers.append(len(pauses))
        return numbers

    assert trio.run(work_everywhere) == [0, 1, 2]
