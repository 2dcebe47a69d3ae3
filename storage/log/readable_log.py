"""Reading a log by its newest view, whichever process writes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from storage.log.view import DEFAULT_READ_BYTES, FetchResult, Isolation, LogView

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.segment.segment import TimestampAndOffset

T = TypeVar("T")


class ReadableLog(ABC):
    """A log that is asked by any number of threads; what goes away while it is read is sought in a newer view."""

    @property
    @abstractmethod
    def view(self) -> LogView:
        """The log as it is now."""

    def read(
        self, offset: int, *, max_bytes: int = DEFAULT_READ_BYTES, isolation: Isolation = Isolation.UNCOMMITTED
    ) -> FetchResult:
        """As `LogView.read`, on the newest view."""
        return self.on_view(lambda view: view.read(offset, max_bytes=max_bytes, isolation=isolation))

    def find_timestamp(
        self, timestamp: int, *, isolation: Isolation = Isolation.UNCOMMITTED
    ) -> TimestampAndOffset | None:
        """As `LogView.find_timestamp`, on the newest view."""
        return self.on_view(lambda view: view.find_timestamp(timestamp, isolation=isolation))

    def on_view(self, ask: Callable[[LogView], T]) -> T:
        """Ask the newest view, and a newer one if what that shows is deleted meanwhile."""
        view = self.view
        while True:
            try:
                return ask(view)
            except FileNotFoundError:
                newer = self.view
                if newer is view:
                    raise
                view = newer
