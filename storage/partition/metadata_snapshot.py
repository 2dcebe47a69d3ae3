"""Snapshots of a KRaft cluster's metadata: files of batches, from a header record to a footer record.

`<end offset>-<epoch>.checkpoint` lies beside the cluster's metadata log, `bootstrap.checkpoint` at the top of a log
directory. Both are written once: the batches have the offsets from 0 on, without a gap.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptBatchError
from storage.record.batch import RecordBatch
from storage.record.control import SnapshotFooter, SnapshotHeader, decode_control
from storage.segment.finding import FindingKind, damage, unreadable
from storage.segment.log_check import LogCheck

if TYPE_CHECKING:
    import os

    from storage.files import Files, ReadableFile
    from storage.record.control import Control
    from storage.record.reading import Batch
    from storage.segment.finding_list import FindingList

_SNAPSHOT: Final = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint")
_LEFT_OVER: Final = re.compile(r"[0-9]{20}-[0-9]{10}(?:-.*)?\.checkpoint\.(?:part|deleted)", re.DOTALL)


def is_metadata_snapshot(name: str) -> bool:
    """Whether a file beside the cluster's metadata log is a snapshot that counts."""
    return _SNAPSHOT.fullmatch(name) is not None


def snapshot_end(name: str) -> int:
    """The end offset of a snapshot: that of the first record of the log that it does not hold."""
    return int(name.partition("-")[0])


def is_left_of_metadata_snapshot(name: str) -> bool:
    """Whether the file is a snapshot that is being written or removed; a node that starts removes it."""
    return _LEFT_OVER.fullmatch(name) is not None


def check_metadata_snapshot(files: Files, path: str | os.PathLike[str], findings: FindingList, *, name: str) -> None:
    """Look through a snapshot: what is wrong is among the findings, under this name.

    A file that is not there is a `FileNotFoundError`.
    """
    try:
        with files.open_reading(path) as file:
            _look_through(file, findings, name)
    except FileNotFoundError:
        raise
    except OSError as error:
        findings.add(unreadable(name, error))


def _look_through(file: ReadableFile, findings: FindingList, name: str) -> None:
    end = file.size_bytes()
    log = LogCheck(file, 0, findings, name=name, end=end, may_end_in_zeros=False, advance=lambda _: None)
    last: Batch | None = None
    due = losses = 0
    for checked in log:
        batch = checked.batch
        if batch.position == 0 and not isinstance(next(iter(_controls(batch)), None), SnapshotHeader):
            reason = "the first record is no snapshot header; no broker reads the snapshot"
            findings.add(damage(FindingKind.METADATA_SNAPSHOT, name, reason, position=0))
        if checked.first_offset > due and len(log.lost) == losses:
            reason = f"the records from offset {due} to {checked.first_offset - 1} are missing"
            place = {"position": batch.position, "offset": checked.first_offset}
            findings.add(damage(FindingKind.OFFSET_GAP, name, reason, **place))
        due, losses, last = log.next_offset, len(log.lost), batch
    if log.position == end and not (last and isinstance(next(reversed(_controls(last)), None), SnapshotFooter)):
        reason = "the last record is no snapshot footer, so the snapshot is not whole"
        findings.add(damage(FindingKind.METADATA_SNAPSHOT, name, reason, position=end))


def _controls(batch: Batch) -> list[Control]:
    """The control records of a sound batch, none if it is one of data."""
    if not isinstance(batch, RecordBatch) or not batch.is_control:
        return []
    try:
        return [decode_control(record.key, record.value) for record in batch.records()]
    except CorruptBatchError:
        return []
