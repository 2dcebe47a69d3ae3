"""The names in a partition's directory: what belongs to the log, what a crash has left, what lacks its other half."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cluster.metadata_log import is_left_of_metadata_snapshot
from storage.files import TEMPORARY_SUFFIX
from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind, parse_name
from storage.verify.finding import FindingKind, damage, linked, notice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.files import FileStatus
    from storage.verify.finding_list import FindingList


class DirectoryCheck:
    """What the names say; `bases` are those of the segments and `snapshots` the offsets of snapshots, ascending.

    Names that mean nothing to a broker are nobody's business.
    """

    def __init__(self, listing: Mapping[str, FileStatus], findings: FindingList, *, is_cluster_metadata: bool) -> None:
        self._listing = listing
        self._findings = findings
        self._is_cluster_metadata = is_cluster_metadata
        self._names = sorted(
            (name for text in listing if (name := parse_name(text)) is not None),
            key=lambda name: (name.offset, str(name)),
        )
        self.bases = self._live(Kind.LOG)
        self.snapshots = self._live(Kind.SNAPSHOT)

    def report(self) -> None:
        """Report what should not be there, and what should."""
        for text, status in sorted(self._listing.items()):
            if status.is_link:
                self._findings.add(linked(text))
        for name in self._names:
            if name.suffix in {FileSuffix.CLEANED, FileSuffix.SWAP}:
                end = "it did not end" if name.suffix is FileSuffix.CLEANED else "it was not brought to its end"
                self._findings.add(
                    damage(
                        FindingKind.INTERRUPTED_REPLACEMENT,
                        str(name),
                        f"the file is part of a cleaning or a split that was interrupted: {end}",
                    )
                )
        bases = set(self.bases)
        for name in self._names:
            if name.suffix is FileSuffix.LIVE and name.kind in SEGMENT_KINDS and name.offset not in bases:
                self._report_orphan(name)
        left_over = sum(name.suffix is FileSuffix.DELETED for name in self._names)
        left_over += sum(text.endswith(TEMPORARY_SUFFIX) for text in self._listing)
        if self._is_cluster_metadata:
            left_over += sum(is_left_of_metadata_snapshot(text) for text in self._listing)
        if left_over:
            self._findings.add(notice(FindingKind.LEFT_OVER, "", f"files that are left to be removed: {left_over}"))

    def _report_orphan(self, name: FileName) -> None:
        """An index that was used and whose log is neither about to be removed nor about to be put in place."""
        logs = (FileName(name.offset, Kind.LOG, state) for state in (FileSuffix.DELETED, FileSuffix.SWAP))
        if self._listing[str(name)].size_bytes and not any(str(log) in self._listing for log in logs):
            self._findings.add(damage(FindingKind.ORPHANED_INDEX, str(name), "the index has no log"))
        else:
            self._findings.add(notice(FindingKind.ORPHANED_INDEX, str(name), "the index has no log any more"))

    def _live(self, kind: Kind) -> list[int]:
        return [name.offset for name in self._names if name.kind is kind and name.suffix is FileSuffix.LIVE]
