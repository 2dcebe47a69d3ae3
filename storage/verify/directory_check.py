"""The names in a partition's directory: files of the log, leftovers of a crash, and indexes without a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cluster.metadata_log import is_left_of_metadata_snapshot
from storage.files import TEMPORARY_SUFFIX
from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind, live_offsets, parsed
from storage.verify.finding import FindingKind, damage, notice, stranger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from storage.files import FileStatus
    from storage.verify.context import PartitionContext


class DirectoryCheck:
    """The check of a directory's names. Those that mean nothing to a broker are ignored.

    `bases` are the base offsets of segments and `snapshots` the offsets of producer snapshots, ascending.
    """

    def __init__(self, context: PartitionContext, listing: Mapping[str, FileStatus]) -> None:
        self._directory = context.directory
        self._listing = listing
        self._findings = context.findings
        self._is_cluster_metadata = context.expected.is_cluster_metadata
        self._names = sorted(parsed(listing), key=lambda name: (name.offset, str(name)))
        self.bases = live_offsets(listing, Kind.LOG)
        self.snapshots = live_offsets(listing, Kind.SNAPSHOT)

    @property
    def has_replaced(self) -> bool:
        """True if a segment in the directory has taken the place of one that is yet to be removed, as a cleaner's do.

        Retention and truncation remove segments in whose place there is no other.
        """
        bases = set(self.bases)
        return any(
            name.suffix is FileSuffix.DELETED and name.kind is Kind.LOG and name.offset in bases for name in self._names
        )

    @property
    def texts(self) -> Collection[str]:
        """All names in the directory."""
        return self._listing.keys()

    @property
    def start_offset(self) -> int:
        """The base offset of the first segment; 0 if there is none."""
        return self.bases[0] if self.bases else 0

    def report(self) -> None:
        """Report what is not opened, interrupted replacements, indexes without a log, and leftovers."""
        for text, status in sorted(self._listing.items()):
            if (refusal := self._directory.refusal(text, status)) is not None:
                self._findings.add(stranger(text, refusal))
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
        """Report an index without a log: damage if it has entries, and its log is not being removed or put in place."""
        logs = (FileName(name.offset, Kind.LOG, suffix) for suffix in (FileSuffix.DELETED, FileSuffix.SWAP))
        if self._listing[str(name)].size_bytes and not any(str(log) in self._listing for log in logs):
            self._findings.add(damage(FindingKind.ORPHANED_INDEX, str(name), "the index has no log"))
        else:
            self._findings.add(notice(FindingKind.ORPHANED_INDEX, str(name), "the index has no log any more"))
