"""Files that are written in lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.render.line_assembler import LineAssembler, Lines
from kafkafs.tree.errors import InvalidInputError
from storage.errors import RecordTooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from kafkafs.locator.paths import TreePath

LINE_BYTES_MAX: Final = 64 * 1024


class LineWriting:
    """One writer's descriptor. The lines that one write completes are handed on together; positions are ignored.

    `tell` takes whole lines, the last perhaps without its newline, and has them on disk when it returns. If it raises,
    the line in progress is dropped too, up to its newline.
    """

    def __init__(self, path: TreePath, tell: Callable[[str], None]) -> None:
        self._path = path
        self._tell = tell
        self._assembler = LineAssembler()

    def write(self, data: Buffer) -> None:
        """Hand on the lines that the data completes."""
        try:
            lines = self._assembler.take(data, line_bytes_max=LINE_BYTES_MAX)
        except RecordTooLargeError:
            raise InvalidInputError(f"{self._path}: a line has more than {LINE_BYTES_MAX} bytes") from None
        self._tell_text(lines)

    def read(self, size_bytes: int) -> bytes:  # noqa: ARG002 -- other writers are told something
        """Nothing."""
        return b""

    def flush(self) -> None:
        """Hand on the last line, if it has no newline."""
        self._tell_text(self._assembler.finish())

    def sync(self) -> None:
        """Do nothing: `tell` has synced already."""

    def close(self) -> None:
        """Forget the line in progress."""
        self._assembler.refuse()

    def _tell_text(self, lines: Lines) -> None:
        if not lines:
            return
        try:
            self._tell(self._text(lines.joined()))
        except Exception:
            self._assembler.refuse()
            raise

    def _text(self, lines: bytes) -> str:
        try:
            return lines.decode()
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"{self._path}: byte {error.start + 1} is not UTF-8") from None
