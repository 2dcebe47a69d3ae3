"""Reading a log by its newest view, whichever process writes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from storage.log.view import DEFAULT_READ_BYTES, FetchResult, Isolation, LogView

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from storage.segment.segment import TimestampAndOffset

T = TypeVar("T")


class ReadableLog(ABC):
    """A log for any number of reading threads. If files are deleted during a read, it reads from a newer view."""

    @property
    @abstractmethod
    def view(self) -> LogView:
        """The log as it is now."""

    def held(self) -> AbstractContextManager[None]:
        """Let this thread read the log's files in a block without looking for their directory each time."""
        return nullcontext()

    def one_look(self) -> AbstractContextManager[None]:
        """Let this thread see one view in a block: the newest at the time when it first asks, with its files held.

        For many questions about one moment. A view that a question finds too old, as its files are gone, stays.
        """
        return nullcontext()

    def read(
        self, offset: int, *, max_bytes: int = DEFAULT_READ_BYTES, isolation: Isolation = Isolation.UNCOMMITTED
    ) -> FetchResult:
        """Read the newest view, as `LogView.read` does."""
        return self.on_view(lambda view: view.read(offset, max_bytes=max_bytes, isolation=isolation))

    def find_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Search the newest view, as `LogView.find_timestamp` does."""
        return self.on_view(lambda view: view.find_timestamp(timestamp))

    def list_offset(self, timestamp: int, *, isolation: Isolation = Isolation.UNCOMMITTED) -> TimestampAndOffset | None:
        """Answer from the newest view, as `LogView.list_offset` does."""
        return self.on_view(lambda view: view.list_offset(timestamp, isolation=isolation))

    def on_view(self, ask: Callable[[LogView], T]) -> T:
        """Ask the newest view, and again a newer one if segments of it are deleted meanwhile."""
        view = self.view
        while True:
            try:
                with self.held():
                    return ask(view)
            except FileNotFoundError:
                newer = self.view
                if newer is view:
                    raise
                view = newer
