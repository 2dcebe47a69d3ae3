"""One partition taken into a run: copied from the source or linked from an earlier run, recovered, and verified.

The copy is a closed log of the source's first records, whole batches up to the planned offset. What a broker changes
meanwhile is noticed, and the partition is planned and taken again; files that did not change are kept. Damage is copied
as it is, and neither repaired nor cut.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.backup.errors import ChangedError, reading
from kafkafs.backup.manifest import sha256_of
from kafkafs.backup.manifest_lines import RunFile, RunPartition
from kafkafs.backup.partition_plan import SMALL_NAMES
from storage.errors import CorruptMetadataError, RecordsCutOffError, StorageError, UnknownPartitionError
from storage.files import CHECKPOINT_BYTES_MAX, FileRange, absolute_path, copied_bits, copy_ranges
from storage.ids import format_id
from storage.log import read_topic_id, recover_log
from storage.log_dir import Doomed
from storage.segment import SEGMENT_KINDS, CheckedScan, Kind
from storage.verify import PartitionExpectation, SegmentExpectation, SegmentPiece, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.backup.manifest_lines import SourceFile
    from kafkafs.backup.partition_plan import PartitionPlan, PlannedFile, PlannedSegment
    from storage.clock import Clock
    from storage.config import StoreConfig, TopicConfig
    from storage.files import Directory, FileStatus
    from storage.verify import Finding

_UNLINKABLE: Final = frozenset({errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP, errno.ENOENT, errno.ENOSYS})
"""What a file system answers that links no files, or one not so often; or the earlier file is gone."""


class _Taken(NamedTuple):
    """A file that is in the run: what it was taken from, its size, and its checksum if it is an earlier run's."""

    source: SourceFile | None
    size_bytes: int
    sha256: str | None
    identity: tuple[int, int]


class PartitionCopy:
    """The directory of one partition in a run, and what was taken into it so far.

    `copied_bytes` and `linked_bytes` are the sizes of the files that are there in the end. `bits` are what it grants:
    no more than the `run_bits`, nor than the partition does.
    """

    def __init__(self, run: Directory, name: str, run_bits: int, clock: Clock) -> None:
        self.target = run.at(name)
        self.copied_bytes = self.linked_bytes = 0
        self.bits = self._run_bits = run_bits
        self._run = run
        self._clock = clock
        self._taken: dict[str, _Taken] = {}

    def take(self, plan: PartitionPlan, config: TopicConfig, store_config: StoreConfig) -> RunPartition:
        """Take what was planned; it is on disk when this returns.

        Raises `ChangedError` or `UnknownPartitionError` if the source changes under it, and `UnreadableSourceError`; an
        `OSError` is one of the run's file system.
        """
        self._enter(plan)
        self._clear(plan)
        with reading(plan.directory):
            for segment in plan.segments:
                self._take_segment(plan, segment)
            for file in plan.others:
                self._take_file(plan, file)
                _check(plan, file)
            self._take_small(plan)
            _check_uncut(plan)
            topic_id = _topic_id(plan.directory)
            if self.bits & ~copied_bits([plan.directory]):
                raise ChangedError("fewer users may read it now")
        damage = [*self._recover(plan, config, store_config), *self._verify(plan)]
        files = tuple(self._files())
        self.target.sync()
        return RunPartition(
            topic=plan.topic,
            partition=plan.partition,
            topic_id=topic_id,
            log_dir=absolute_path(plan.log_dir.path),
            start_offset=plan.prefix.start_offset,
            end_offset=plan.prefix.end_offset,
            high_watermark=plan.high_watermark,
            above_high_watermark=plan.above_high_watermark,
            first_dirty_offset=plan.first_dirty_offset,
            files=files,
            damage=tuple(dict.fromkeys(damage)),
        )

    # Taking files

    def _enter(self, plan: PartitionPlan) -> None:
        """Make the directory, as open as the partition is now; one that grants other users more is made again."""
        bits = self._run_bits & copied_bits([plan.directory])
        is_there = self.target.exists()
        if is_there and bits != self.bits:
            Doomed(self._run, plan.name).remove()
            is_there = False
        self.bits = bits
        self.target = self._run.at(plan.name).limited(bits)
        if not is_there:
            self.target.make()

    def _clear(self, plan: PartitionPlan) -> None:
        """Remove what an earlier attempt left, except what is still the same."""
        wanted = {file.name: (file.source, file.size_bytes) for file in plan.files() if file.source is not None}
        kept = {}
        for name, status in self.target.statuses().items():
            taken = self._taken.get(name)
            is_same = taken is not None and wanted.get(name) == (taken.source, taken.size_bytes)
            if taken is not None and is_same and taken.identity == status.identity:
                kept[name] = taken
            else:
                self.target.remove(name)
        self._taken = kept

    def _take_segment(self, plan: PartitionPlan, segment: PlannedSegment) -> None:
        for file in segment.files:
            self._take_file(plan, file)
        if self._is_linked(segment):
            for derived in segment.derived:
                self._link(plan, derived)
        for file in segment.files:
            _check(plan, file, is_growing=segment.is_last)

    def _take_file(self, plan: PartitionPlan, file: PlannedFile) -> None:
        if file.name in self._taken or (file.shared is not None and self._link(plan, file.shared)):
            return
        source = FileRange(plan.directory, file.source_name, 0, file.size_bytes)
        try:
            copy_ranges([source], self.target, file.name, modified_ms=file.status.modified_ms)
        except RecordsCutOffError:
            raise ChangedError(f"{file.source_name} was cut") from None
        self._note(file.name, file.source, None)

    def _link(self, plan: PartitionPlan, file: RunFile) -> bool:
        """Link a file of the earlier run, if it is there; return whether it is in this run now."""
        assert plan.earlier is not None
        earlier = plan.earlier.directory.at(plan.name)
        try:
            status = earlier.status(file.name)
            if status is None or not status.is_file or status.size_bytes != file.size_bytes:
                return False
            earlier.link(file.name, self.target, file.name)
        except OSError as error:
            if error.errno in _UNLINKABLE:
                return False
            raise
        self._note(file.name, file.source, file.sha256)
        return True

    def _note(self, name: str, source: SourceFile | None, sha256: str | None) -> None:
        status = self.target.status(name)
        assert status is not None
        self._taken[name] = _Taken(source, status.size_bytes, sha256, status.identity)

    def _is_linked(self, segment: PlannedSegment) -> bool:
        """True if all files of the segment are an earlier run's."""
        return all(self._is_linked_file(file.name) for file in segment.files)

    def _is_linked_file(self, name: str) -> bool:
        taken = self._taken.get(name)
        return taken is not None and taken.sha256 is not None

    def _take_small(self, plan: PartitionPlan) -> None:
        for name in SMALL_NAMES:
            with suppress(FileNotFoundError):
                self.target.replace(name, plan.directory.read_small(name, CorruptMetadataError, CHECKPOINT_BYTES_MAX))

    # Making it a log of its own

    def _recover(self, plan: PartitionPlan, config: TopicConfig, store_config: StoreConfig) -> list[str]:
        """Make a closed log of what was taken. A log whose end is damaged stays as it is; returns that damage."""
        if not plan.segments:
            return []
        last = plan.segments[-1]
        log_name = last.files[0].name
        if plan.prefix.damage is not None:
            return [f"{log_name}: {plan.prefix.damage}"]
        is_whole = self._is_linked(last) and all(self._is_linked_file(file.name) for file in last.derived)
        if is_whole and plan.before is not None and plan.before.damage:
            return []  # it was left as it is by the earlier run
        flaw = None if is_whole else self._flaw(last)
        if flaw is None:
            end_offset = plan.prefix.end_offset
            try:
                recover_log(
                    self._clock,
                    self.target,
                    config,
                    is_clean=is_whole and bool(last.derived),
                    recovery_point=max(end_offset, last.base_offset + 1),  # the last segment alone is read
                    start_offset=plan.prefix.start_offset,
                    allows_offset_gaps=True,
                    producer_expiration_ms=store_config.producer_id_expiration_ms,
                )
            except StorageError as error:
                flaw = error.reason
        if flaw is None:
            return []
        self._take_indexes(plan, last)
        return [f"{log_name}: {flaw}"]

    def _flaw(self, last: PlannedSegment) -> str | None:
        """Return why recovery would cut the last segment, None if it would not."""
        with self.target.open_reading(last.files[0].name) as file:
            scan = CheckedScan(file, last.base_offset)
            for _ in scan:
                pass
            if scan.error is not None:
                return scan.error.reason
            return f"{scan.trailing_bytes} bytes follow the last whole batch" if scan.trailing_bytes else None

    def _take_indexes(self, plan: PartitionPlan, last: PlannedSegment) -> None:
        """Copy the indexes of a damaged last segment as they are: nothing can be said of them."""
        with reading(plan.directory):
            for kind in SEGMENT_KINDS[1:]:
                name, source_name = (
                    each.replace(Kind.LOG, kind) for each in (last.files[0].name, last.files[0].source_name)
                )
                status = plan.directory.status(source_name)
                if status is not None:
                    with suppress(FileNotFoundError):
                        self.target.remove(name)
                    copy_ranges([FileRange(plan.directory, source_name, 0, status.size_bytes)], self.target, name)

    # Verifying it

    def _verify(self, plan: PartitionPlan) -> Iterator[str]:
        """Verify the segments that are not an earlier run's; yield the damage, which the source has too."""
        for damage in () if plan.before is None else plan.before.damage:
            if self._is_linked_file(damage.partition(":")[0]):
                yield damage
        for segment in plan.segments:
            if self._is_linked(segment):
                continue
            for finding in self._findings(segment):
                if finding.severity is Severity.UNREADABLE:
                    raise OSError(errno.EIO, finding.reason, self.target.path_of(finding.path))
                if finding.severity is Severity.DAMAGE:
                    self._check_same(plan, segment)
                    yield f"{finding.path}: {finding.reason}"

    def _findings(self, segment: PlannedSegment) -> list[Finding]:
        expected = PartitionExpectation(directory=self.target, is_clean=True, is_compacted=True)
        meant = SegmentExpectation(segment.base_offset, is_active=False, begins_epoch=False)
        result = SegmentPiece(expected, meant, segment.files[0].size_bytes).verify()
        return [] if result is None else result.findings.all()

    def _check_same(self, plan: PartitionPlan, segment: PlannedSegment) -> None:
        """Raise `ChangedError` unless the damage is the source's: then the source has the very same bytes."""
        for file in segment.files:
            with reading(plan.directory):
                _check(plan, file, is_growing=segment.is_last)
                theirs = sha256_of(plan.directory, file.source_name, file.size_bytes)
            if theirs != sha256_of(self.target, file.name, file.size_bytes):
                raise ChangedError(f"{file.source_name} changed while it was copied")

    def _files(self) -> Iterator[RunFile]:
        """Yield every file that is there, with its checksum; what was linked has the earlier run's."""
        self.copied_bytes = self.linked_bytes = 0
        for name, status in sorted(self.target.statuses().items()):
            taken = self._taken.get(name)
            if taken is not None and taken.identity != status.identity:
                taken = None  # recovery has replaced it
            source = None if taken is None else taken.source
            if taken is not None and taken.sha256 is not None:
                self.linked_bytes += status.size_bytes
                yield RunFile(name, status.size_bytes, taken.sha256, source)
            else:
                self.copied_bytes += status.size_bytes
                yield RunFile(name, status.size_bytes, sha256_of(self.target, name, status.size_bytes), source)


def _check(plan: PartitionPlan, file: PlannedFile, *, is_growing: bool = False) -> None:
    """Raise `ChangedError` unless the source's file is still the one that was planned."""
    now = plan.directory.status(file.source_name)
    if now is None:
        raise ChangedError(f"{file.source_name} was deleted or replaced")
    if now.identity != file.status.identity or (not is_growing and _version(now) != _version(file.status)):
        raise ChangedError(f"{file.source_name} was changed or replaced")


def _version(status: FileStatus) -> tuple[int, int]:
    return status.size_bytes, status.changed_ns


def _check_uncut(plan: PartitionPlan) -> None:
    """Raise `ChangedError` if the log was truncated below the end of what was taken.

    Truncation leaves other files above it, or cuts the last one; another log may stand there by now.
    """
    if plan.segments:
        _check(plan, plan.segments[-1].files[0], is_growing=True)
    now = plan.log.view
    cuts = now.cuts[len(plan.view.cuts) :]
    if any(cut < plan.prefix.end_offset for cut in cuts):
        raise ChangedError(f"the log was truncated at offset {min(cuts)}")
    if plan.directory.own_status() is None:
        raise UnknownPartitionError("the directory of the partition is gone", path=plan.directory)


def _topic_id(directory: Directory) -> str | None:
    try:
        found = read_topic_id(directory)
    except CorruptMetadataError:
        return None
    return None if found is None else format_id(found)
