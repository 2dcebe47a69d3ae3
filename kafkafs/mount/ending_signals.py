"""Ending signals as exceptions, so that the process first undoes what it has begun."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType


class EndingSignal(BaseException):
    """A signal that asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def taking_effect_afterwards(numbers: Sequence[int]) -> Iterator[None]:
    """Make each of these signals raise `EndingSignal` in the block, and take its usual effect after it.

    A signal that is ignored, as SIGHUP under nohup(1), stays ignored. Only the main thread may call this.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    taken = {number: handler for number, handler in before.items() if handler not in {signal.SIG_IGN, None}}
    try:
        try:
            for number in taken:
                signal.signal(number, _raise)
            yield
        finally:
            for number, handler in taken.items():
                signal.signal(number, handler)
    except EndingSignal as ending:
        signal.raise_signal(ending.number)
        raise SystemExit(128 + ending.number) from None  # it had a handler, which has returned


def _raise(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise EndingSignal(number)
