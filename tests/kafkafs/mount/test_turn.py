"""A turn is one task's at a time, in the order in which they come, and is never lost."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kafkafs.mount.turn import Turn


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
