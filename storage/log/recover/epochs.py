"""The leader epochs of a log during recovery: read, rebuilt from the batches if the file is lost, and reported."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError, CorruptCheckpointError
from storage.files import CHECKPOINT_BYTES_MAX
from storage.log.epoch_entries import EpochStart
from storage.log.epochs import EPOCHS_NAME, LeaderEpochs
from storage.log.recover.report import Repair, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from storage.files import Directory
    from storage.record.reading import Batch
    from storage.segment.segment import Segment


class EpochsRecovery:
    """The epochs file of one log during recovery. `tell` receives each step."""

    def __init__(self, directory: Directory, tell: Callable[[Step], None]) -> None:
        self._directory = directory
        self._data_before = self._read()
        self._entries_before: Sequence[EpochStart] | None = None
        self._tell = tell
        self._is_told = False

    def load(self, segments: Sequence[Segment]) -> LeaderEpochs:
        """Load the epochs of the file, or of the batches if the file is damaged or a loss of power emptied it."""
        try:
            epochs = LeaderEpochs.load(self._directory)
            if self._entries_before is None:
                self._entries_before = epochs.entries
            if not self._is_wiped(segments):
                return epochs
            reason = "it is empty, and the log has epochs"
        except CorruptCheckpointError as error:
            reason = error.reason
        starts = (
            EpochStart(batch.leader_epoch, batch.base_offset)
            for segment in segments
            for batch in framed_batches(segment)
            if batch.leader_epoch >= 0
        )
        epochs = LeaderEpochs.make(self._directory, starts)
        self._tell(Step(Repair.REBUILT, EPOCHS_NAME, reason))
        self._is_told = True
        return epochs

    def _is_wiped(self, segments: Sequence[Segment]) -> bool:
        """True if a loss of power emptied the file: a file is created empty, and filled before the first batch."""
        status = self._directory.status(EPOCHS_NAME)
        if status is None or status.size_bytes:
            return False
        first = next((batch for segment in reversed(segments) for batch in framed_batches(segment)), None)
        return first is not None and first.leader_epoch >= 0

    def finish(self, epochs: LeaderEpochs) -> None:
        """Report that the file, which has these epochs now, was changed, if it was and that is not reported yet."""
        is_written = epochs.entries is not self._entries_before
        if is_written and not self._is_told and self._read() != self._data_before:
            reason = "its epochs are not those of the log from its start to its end"
            self._tell(Step(Repair.REBUILT, EPOCHS_NAME, reason))

    def _read(self) -> bytes | None:
        try:
            return self._directory.read_small(EPOCHS_NAME, CorruptCheckpointError, CHECKPOINT_BYTES_MAX)
        except (CorruptCheckpointError, FileNotFoundError):
            return None  # a file that is too large is rebuilt, and reported then


def framed_batches(segment: Segment) -> Iterator[Batch]:
    """Iterate over the segment's batches up to the first that is not framed."""
    with suppress(CorruptBatchError):
        yield from segment.batches()
