"""Work leaves the event loop until it was quick, and while other work of its kind may hold it up."""

from __future__ import annotations

from threading import Event, current_thread, main_thread

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kafkafs.mount.pace import Pace

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
