"""Memory is given back once after each busy time, and never during one."""

from __future__ import annotations

import trio

from kafkafs.mount.quiet import BUSY_S, Quiet


def test_it_is_given_back_once_a_busy_time_has_ended() -> None:
    used_s: list[float] = []
    given_at: list[int] = []
    quiet = Quiet(lambda: given_at.append(len(used_s)), lambda: sum(used_s))
    busy, idle = 2 * BUSY_S, BUSY_S / 2
    for each_s in (idle, busy, busy, idle, idle, idle, busy, idle):
        used_s.append(each_s)
        trio.run(quiet.look)
    assert given_at == [4, 8]
