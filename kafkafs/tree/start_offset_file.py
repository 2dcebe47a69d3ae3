"""`log-start-offset`: where a log begins, and the way to delete the records below another offset."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkafs.locator.numbers import DIGITS
from kafkafs.tree.errors import InvalidInputError, NotPermittedError
from kafkafs.tree.line_writing import LineWriting
from kafkafs.tree.log_input import LogInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.tree.log_source import LogSource
    from storage.partition.log import Log

_ALL: Final = "-1"  # as in Kafka's DeleteRecords: up to the high watermark, which is our end of the log
_OFFSET: Final = re.compile(f"{_ALL}|{DIGITS}")


class StartOffsetFile(LogInput):
    """The offset of a log's start, in a line.

    Whoever writes a larger one deletes what lies below it; `-1` stands for the log's end. That has happened durably
    when the write returns, or is refused as a broker would: beyond the log's end, and where a topic is not cleaned up
    by deleting. `write_checkpoints` has the starts of all logs on disk when it returns; where it fails the records are
    gone, but a crash may bring them back, and writing the same again makes up for it.
    """

    def __init__(self, path: PartitionFilePath, source: LogSource, write_checkpoints: Callable[[], None]) -> None:
        super().__init__(path, source)
        self._write_checkpoints = write_checkpoints

    def text(self) -> bytes:
        """Where the log begins now."""
        return b"%d\n" % self.source.log.view.start_offset

    def open_writing(self) -> LineWriting:
        """Open it to delete records."""
        log = self.writable_log()
        return LineWriting(self.path, lambda text: self._delete_before(log, text))

    def _delete_before(self, log: Log, text: str) -> None:
        written = text.strip()
        if _OFFSET.fullmatch(written) is None:
            raise InvalidInputError(f"{self.path}: {written!r} is no offset, nor {_ALL} for the log's end")
        if not log.config.delete:
            raise NotPermittedError(
                f"{self.path}: no records are deleted where cleanup.policy={log.config.value('cleanup.policy')}"
            )
        log.advance_start(log.view.end_offset if written == _ALL else int(written))
        self._write_checkpoints()
