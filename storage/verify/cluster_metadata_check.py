"""The files that only the cluster's metadata log has beside it: its snapshots, and the state of the quorum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cluster.metadata_log import is_metadata_snapshot, snapshot_end
from storage.cluster.quorum_state import QUORUM_STATE_NAME, read_quorum_state
from storage.errors import CorruptBatchError, CorruptMetadataError
from storage.offset_text import offsets_text
from storage.record.control import SnapshotFooter, SnapshotHeader, decode_control
from storage.verify.finding import FindingKind, damage, unreadable
from storage.verify.log_check import LogCheck

if TYPE_CHECKING:
    from collections.abc import Collection

    from storage.files import Directory, ReadableFile
    from storage.record.control import Control
    from storage.record.reading import Batch
    from storage.verify.context import PartitionContext
    from storage.verify.finding import FindingList


def check_cluster_metadata(context: PartitionContext, names: Collection[str], *, start_offset: int) -> None:
    """Check them in a directory with these names, whose log starts at the offset.

    Raises `FileNotFoundError` for a snapshot that is gone.
    """
    findings = context.findings
    snapshots = sorted(filter(is_metadata_snapshot, names))
    for name in snapshots:
        check_metadata_snapshot(context.directory, name, findings)
    if start_offset > max(map(snapshot_end, snapshots), default=0):
        reason = (
            f"the log starts at offset {start_offset}, and no snapshot ends there or later, so what came before is "
            "lost; no broker starts with it"
        )
        findings.add(damage(FindingKind.METADATA_SNAPSHOT, "", reason, offset=start_offset))
    try:
        read_quorum_state(context.directory)
    except CorruptMetadataError as error:
        findings.add(damage(FindingKind.QUORUM_STATE, QUORUM_STATE_NAME, f"{error.reason}; no broker starts with it"))
    except OSError as error:
        findings.add(unreadable(QUORUM_STATE_NAME, error))


def check_metadata_snapshot(directory: Directory, name: str, findings: FindingList) -> None:
    """Check the snapshot of this name in the directory. Raises `FileNotFoundError` if it is missing."""
    try:
        with directory.open_reading(name) as file:
            _check_snapshot(file, findings, name)
    except FileNotFoundError:
        raise
    except OSError as error:
        findings.add(unreadable(name, error))


def _check_snapshot(file: ReadableFile, findings: FindingList, name: str) -> None:
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
            reason = f"the snapshot lacks {offsets_text(due, checked.first_offset)}"
            place = {"position": batch.position, "offset": checked.first_offset}
            findings.add(damage(FindingKind.OFFSET_GAP, name, reason, **place))
        due, losses, last = log.next_offset, len(log.lost), batch
    if log.position == end and not (last and isinstance(next(reversed(_controls(last)), None), SnapshotFooter)):
        reason = "the last record is no snapshot footer, so the snapshot is not whole"
        findings.add(damage(FindingKind.METADATA_SNAPSHOT, name, reason, position=end))


def _controls(batch: Batch) -> list[Control]:
    """Return the control records of a sound batch; none if it holds data."""
    if not batch.is_control:
        return []
    try:
        return [decode_control(record.key, record.value) for record in batch.records()]
    except CorruptBatchError:
        return []
