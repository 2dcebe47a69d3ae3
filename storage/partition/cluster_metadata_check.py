"""What lies beside the cluster's metadata log and beside no other: its snapshots, and the state of the quorum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from storage.errors import CorruptMetadataError
from storage.partition.metadata_snapshot import check_metadata_snapshot, is_metadata_snapshot, snapshot_end
from storage.partition.quorum_state import QUORUM_STATE_NAME, read_quorum_state
from storage.segment.finding import FindingKind, damage, unreadable

if TYPE_CHECKING:
    from collections.abc import Collection

    from storage.files import Files
    from storage.segment.finding_list import FindingList


def check_cluster_metadata(
    files: Files, directory: str, names: Collection[str], findings: FindingList, *, start_offset: int
) -> None:
    """Look at all of that in a directory with these names, in which the log starts at an offset.

    A snapshot that has gone is a `FileNotFoundError`.
    """
    snapshots = sorted(filter(is_metadata_snapshot, names))
    for name in snapshots:
        check_metadata_snapshot(files, Path(directory, name), findings, name=name)
    if start_offset > max(map(snapshot_end, snapshots), default=0):
        reason = (
            f"the log starts at offset {start_offset}, and no snapshot ends there or later, so what came before is "
            "lost; no broker starts with it"
        )
        findings.add(damage(FindingKind.METADATA_SNAPSHOT, "", reason, offset=start_offset))
    try:
        read_quorum_state(files, directory)
    except CorruptMetadataError as error:
        findings.add(damage(FindingKind.QUORUM_STATE, QUORUM_STATE_NAME, f"{error.reason}; no broker starts with it"))
    except OSError as error:
        findings.add(unreadable(QUORUM_STATE_NAME, error))
