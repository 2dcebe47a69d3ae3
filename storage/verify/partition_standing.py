"""What the files at the top of a log directory say of a partition in it, now or once more later."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptCheckpointError
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.log_dir import CLEAN_MARKER_NAME
from storage.verify.checking import Standing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.files import Files
    from storage.log_dir.checkpoints import Partition

# Below each of these a log has been once. The cleaner's tells no more: brokers put it right where it is too large.
_REACHED: Final = (OffsetCheckpoint.RECOVERY_POINT, OffsetCheckpoint.LOG_START, OffsetCheckpoint.HIGH_WATERMARK)


@dataclass(frozen=True, slots=True)
class StandingAgain:
    """Asks a log directory about a partition once more; can be handed to other processes."""

    log_dir: str
    partition: Partition

    def __call__(self, files: Files) -> Standing:
        """What the directory says now; a file that cannot be read says nothing."""
        path = Path(self.log_dir)
        offsets: dict[OffsetCheckpoint, Mapping[Partition, int]] = {}
        for checkpoint in _REACHED:
            try:
                offsets[checkpoint] = read_offsets(files.directory(path), checkpoint)
            except (CorruptCheckpointError, OSError):
                offsets[checkpoint] = {}
        is_clean = was_closed(files, path)
        return Standing(is_clean, reached(offsets, self.partition), outdated(files, path, is_clean=is_clean))


def reached(offsets: Mapping[OffsetCheckpoint, Mapping[Partition, int]], partition: Partition) -> dict[str, int]:
    """The offsets that the log has reached by the word of these checkpoints, by their files' names."""
    return {each.value: offsets[each][partition] for each in _REACHED if partition in offsets[each]}


def was_closed(files: Files, path: Path) -> bool:
    """Whether the log directory has the marker of one that was closed properly; a link in its place is none."""
    marker = files.status(path / CLEAN_MARKER_NAME)
    return marker is not None and not marker.is_link


def outdated(files: Files, path: Path, *, is_clean: bool) -> frozenset[str]:
    """The checkpoints that a broker wrote before it may have truncated a log.

    With a truncation it writes the recovery points, and the high watermarks up to five seconds later.
    """
    points, watermarks = (
        files.status(path / each.value) for each in (OffsetCheckpoint.RECOVERY_POINT, OffsetCheckpoint.HIGH_WATERMARK)
    )
    if is_clean or points is None or watermarks is None or points.modified_ms <= watermarks.modified_ms:
        return frozenset()
    return frozenset({OffsetCheckpoint.HIGH_WATERMARK.value})
