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
    from storage.log import Log, LogView

_ALL: Final = "-1"  # as in Kafka's DeleteRecords: up to the high watermark
_OFFSET: Final = re.compile(f"{_ALL}|{DIGITS}")


class StartOffsetFile(LogInput):
    """The offset of a log's start, in a line.

    Writing a larger offset deletes the records below it; `-1` means the high watermark, which is the log's end unless
    it is a broker's replica. The deletion is durable when the write returns. As with a broker, offsets beyond the high
    watermark, topics whose cleanup.policy has no `delete` and the brokers' own topics are refused. After a refusal or
    an error, as on a full disk, nothing has changed.
    """

    def __init__(self, path: PartitionFilePath, source: LogSource, high_watermark: Callable[[LogView], int]) -> None:
        super().__init__(path, source)
        self._high_watermark = high_watermark

    def text(self) -> bytes:
        """Return the log start offset."""
        return b"%d\n" % self.source.log.view.start_offset

    def open_writing(self) -> LineWriting:
        """Open it to delete records."""
        log = self.writable_log()
        return LineWriting(self.path, lambda text: self._delete_before(log, text))

    def _delete_before(self, log: Log, text: str) -> None:
        written = text.strip()
        if _OFFSET.fullmatch(written) is None:
            raise InvalidInputError(f"{self.path}: {written!r} is no offset, nor {_ALL} for all that is replicated")
        if not log.config.delete:
            raise NotPermittedError(
                f"{self.path}: no records are deleted where cleanup.policy={log.config.value('cleanup.policy')}"
            )
        view = log.view
        high_watermark = self._high_watermark(view)
        offset = high_watermark if written == _ALL else int(written)
        if high_watermark < offset <= view.end_offset:
            raise InvalidInputError(
                f"{self.path}: what lies at {high_watermark} and after it is not known to be replicated, and stays"
            )
        log.advance_start(offset)
