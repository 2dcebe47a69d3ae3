"""Work for what is likely to be asked for next, done in threads while what was asked for is on its way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_THREADS: Final = ThreadPoolExecutor(2, "ahead")


def go_ahead(work: Callable[[], None]) -> None:
    """Have it done soon; nobody hears of what goes wrong, which will go wrong again for whoever asks."""
    _THREADS.submit(work)
