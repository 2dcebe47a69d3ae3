"""The base of the files that change a log when they are written."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from kafkafs.tree.errors import NotPermittedError, ReadOnlyTreeError
from kafkafs.tree.generated_file import BytesReading
from kafkafs.tree.node import Attributes, WritableFile
from storage.log_dir import BROKERS_OWN

if TYPE_CHECKING:
    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Reading
    from storage.log import Log


class LogInput(WritableFile):
    """A file that changes a log when it is written, and shows a short text to readers. It is never cached."""

    def __init__(self, path: PartitionFilePath, source: LogSource) -> None:
        super().__init__(path, identity=source.identity)
        self.source = source

    @abstractmethod
    def text(self) -> bytes:
        """Return the text for readers."""

    def attributes(self) -> Attributes:
        """Report the time of the active segment."""
        return Attributes(
            size_bytes=len(self.text()),
            modified_ms=self.source.modified_ms(self.source.log.view),
            is_writable=is_input_writable(self.source),
            access=self.source.access(),
        )

    def open(self) -> Reading:
        """Open the present text."""
        return BytesReading(self.text())

    def writable_log(self) -> Log:
        """The log; raises `ReadOnlyTreeError` or `NotPermittedError` if nothing of it may be changed.

        Raises the error that keeps a writable log from being opened.
        """
        log, refusal = self.source.writable, self.source.refusal
        if refusal is not None:
            raise OSError(refusal.errno, refusal.strerror, refusal.filename)
        if log is None:
            raise ReadOnlyTreeError(f"{self.path}: the log is open for reading only")
        if self.source.topic in BROKERS_OWN:
            raise NotPermittedError(f"{self.path}: only brokers change {self.source.topic}, which is their own")
        return log


def is_input_writable(source: LogSource) -> bool:
    """True if the files that change a log can be written, or could be if the log could be opened."""
    return (source.writable is not None or source.refusal is not None) and source.topic not in BROKERS_OWN
