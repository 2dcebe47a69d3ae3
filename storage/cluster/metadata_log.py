"""The cluster's metadata log followed: its newest snapshot, the log after it, and what brokers append meanwhile.

`MetadataLog.ask` answers from everything that the log holds at that moment; what was read once is not read again. Only
records that a snapshot or the log holds whole count: reading ends before damage, which `damage` names, because a
record that is missing may have changed what every later one means. The end of the log is that of this replica, so the
last records may be ones that the quorum has not committed.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from storage.errors import CorruptBatchError, CorruptMetadataError, OffsetOutOfRangeError, StorageError
from storage.internal import Message, control, metadata
from storage.internal.cluster_image import ClusterImage
from storage.partition.metadata_snapshot import is_metadata_snapshot
from storage.partition.quorum_state import read_quorum_state
from storage.record.batch import RecordBatch
from storage.segment.log_file import LogScan

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from storage.files import Files
    from storage.partition.quorum_state import QuorumState
    from storage.partition.readable_log import ReadableLog
    from storage.partition.view import LogView
    from storage.record.reading import Batch

T = TypeVar("T")

_SNAPSHOT_FOOTER: Final = "SnapshotFooterRecord"
_RAW: Final = "type {0} version {1}"


class MetadataLog:
    """The metadata log in one directory, which `log` reads. Any thread may ask; they take turns."""

    def __init__(self, files: Files, directory: str | os.PathLike[str], log: ReadableLog) -> None:
        self._files = files
        self._directory = Path(directory)
        self._log = log
        self._asking = Lock()
        self._view: LogView | None = None
        self._position = 0  # the offset to read on at
        self._image = ClusterImage()
        self._gap: StorageError | None = None
        self._damage: StorageError | None = None

    def ask(self, question: Callable[[ClusterImage], T]) -> T:
        """What the cluster as it is now answers. The image changes after the question, so the answer must not keep it.

        Raises `OSError` where the log cannot be read.
        """
        with self._asking:
            self._read_on()
            return question(self._image)

    def quorum_state(self) -> QuorumState | None:
        """What the node of this replica remembers of the quorum's elections, None if it has no such file.

        Raises `CorruptMetadataError` for a file that no broker reads.
        """
        return read_quorum_state(self._files, self._directory)

    @property
    def damage(self) -> StorageError | None:
        """Why the image that somebody asked last may not be that of a broker, None if it is.

        Something ended the reading before the log's end, or nothing tells what was before the log's start.
        """
        return self._damage or self._gap

    def _read_on(self) -> None:
        view = self._log.view
        if view is self._view:
            return
        if self._view is None or self._is_replaced(self._view, view):
            self._begin(view)
        self._damage = None
        try:
            self._read_log()
        except CorruptBatchError as error:
            self._damage = error
        self._view = view

    def _is_replaced(self, before: LogView, now: LogView) -> bool:
        """True if what was read is not what a reader of the whole log would read now."""
        cuts = now.cuts[len(before.cuts) :] if now.cuts[: len(before.cuts)] == before.cuts else (0,)
        return any(cut < self._position for cut in cuts) or not now.start_offset <= self._position <= now.end_offset

    def _begin(self, view: LogView) -> None:
        """Begin with the newest snapshot that is whole, or with the beginning of the log."""
        self._gap = None
        for end_offset, name in sorted(self._snapshots(), reverse=True):
            if not view.start_offset <= end_offset <= view.end_offset:
                continue  # the log does not go on where the snapshot ends
            try:
                self._image = self._snapshot(name)
            except (StorageError, OSError):
                continue  # an older one, and more of the log, say the same
            self._image.end_offset = self._position = end_offset
            return
        self._image, self._position = ClusterImage(), view.start_offset
        if view.start_offset > 0:
            reason = f"the log begins at offset {view.start_offset}, and no snapshot tells what was before"
            self._gap = CorruptMetadataError(reason, path=self._directory)

    def _snapshots(self) -> Iterator[tuple[int, str]]:
        for name in self._files.names(self._directory):
            if is_metadata_snapshot(name):
                yield int(name.partition("-")[0]), name

    def _snapshot(self, name: str) -> ClusterImage:
        """What a snapshot holds; raises `StorageError` if it is not whole."""
        image = ClusterImage(snapshot=name.partition(".")[0])
        last = None
        with self._files.open_reading(self._directory / name) as file:
            scan = LogScan(file)
            for batch in scan:
                batch.check_crc()
                last = _apply(image, batch, None) or last
            if scan.trailing_bytes or last != _SNAPSHOT_FOOTER:
                raise CorruptMetadataError("the snapshot is not whole", path=self._directory / name)
        return image

    def _read_log(self) -> None:
        while True:
            try:
                fetched = self._log.read(self._position)
            except OffsetOutOfRangeError:  # segments went, or records were truncated, since the view was taken
                self._begin(self._log.view)
                fetched = self._log.read(self._position)
            for batch in fetched.batches:
                _apply(self._image, batch, self._position)
                self._position = batch.last_offset + 1
            if not fetched.batches:
                return


def _apply(image: ClusterImage, batch: Batch, from_offset: int | None) -> str | None:
    """Take in the records of a batch, of the log only those from an offset on; gives the last control record's name."""
    if not isinstance(batch, RecordBatch):
        return None
    last = None
    for record in batch.records():
        if from_offset is not None and record.offset < from_offset:
            continue
        offset = None if from_offset is None else record.offset
        if batch.is_control:
            found = control.decode(record.key, record.value)
            if isinstance(found, Message):
                last = found.name
                image.apply_control(found.name, found.fields, offset)
        elif record.value is not None:
            outcome = metadata.decode(record.value)
            if isinstance(outcome, Message):
                image.apply(outcome.name, outcome.fields, offset)
            else:
                image.apply(_RAW.format(outcome.type, outcome.version), {}, offset)
    return last
