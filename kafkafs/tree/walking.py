"""What the directories of a log tell a walk of the names in them.

A walk that asks for sizes is told those of a short log at once, which takes less than the requests for each. They are
as of one look, and the kernel keeps them for a moment, so a log that the mount itself writes has none: its writer
would find old ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkafs.tree.log_source import LogSource
    from storage.log import LogView

SHORT_BYTES: Final = 64 * 1024
"""How large a log, or a file of one, is at most of which a walk is told sizes."""


def is_written_elsewhere(source: LogSource) -> bool:
    """True if the mount itself does not write the log."""
    return source.writable is None and source.refusal is None


def is_short(view: LogView) -> bool:
    """True if reading the log for each of its views takes little."""
    return view.end_position <= SHORT_BYTES and len(view.segments) <= 1
