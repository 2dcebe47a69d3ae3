"""Turns: a thread that makes very many system calls lets other threads run in between.

CPython's lock is free during a system call. A call on a file's name takes some microseconds, and another thread needs
more time than that to wake up. By then the caller has the lock again, so a thread in a loop of such calls keeps all
others waiting for a tenth of a second and more. Such a thread sleeps now and then, for long enough that they wake up.
"""

from __future__ import annotations

from contextlib import contextmanager
from heapq import merge
from threading import local
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T", bound="str | int | tuple[object, ...]")
V = TypeVar("V")

_TURN_S: Final = 0.005
_PAUSE_S: Final = 50e-6
_NEVER: Final = float("inf")
_SORTED: Final = 2000  # names, which are sorted in less than a turn


class _Turn(local):
    """The time at which this thread's turn ends."""

    ends_s = _NEVER


_turn: Final = _Turn()


@contextmanager
def taking_turns() -> Iterator[None]:
    """Let this thread pause for a moment each time that it has run for a while in the block."""
    _turn.ends_s = monotonic() + _TURN_S
    try:
        yield
    finally:
        _turn.ends_s = _NEVER


def takes_turns() -> bool:
    """True if this thread pauses now and then."""
    return _turn.ends_s != _NEVER


def in_order(names: Sequence[T]) -> Iterator[T]:
    """Yield the names, or what else has an order, in their order.

    Sorting a million in one call would make other threads wait for half a second, and so would freeing them together.
    """
    pieces = (names[start : start + _SORTED] for start in range(0, len(names), _SORTED))
    return merge(*(_taken(sorted(piece, reverse=True)) for piece in pieces))


def _taken(names: list[T]) -> Iterator[T]:
    while names:
        yield names.pop()


def free(those: dict[T, V] | set[T]) -> None:
    """Empty a collection that is no longer used. Freeing a million names in one call would make others wait as well."""
    while those:
        those.pop() if isinstance(those, set) else those.popitem()


def give_way() -> None:
    """Pause for a moment if this thread takes turns, and its turn is over."""
    if monotonic() > _turn.ends_s:
        sleep(_PAUSE_S)
        _turn.ends_s = monotonic() + _TURN_S
