"""One log directory looked at from outside: what it says of itself, and which partitions are to be looked through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import CorruptCheckpointError, CorruptMetadataError
from storage.partition.checking import PartitionExpectation
from storage.segment.finding import Finding, FindingKind, damage, unreadable
from storage.segment.names import Kind
from storage.store.checkpoints import OffsetCheckpoint, read_offsets
from storage.store.directory_names import parse_directory_name
from storage.store.log_dir import CLEAN_MARKER_NAME, Listing
from storage.store.properties import META_PROPERTIES_NAME, read_meta_properties

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
    from typing import TypeAlias

    from storage.files import Files
    from storage.store.checkpoints import Partition
    from storage.store.properties import MetaProperties

    _Offsets: TypeAlias = dict[OffsetCheckpoint, dict[Partition, int]]

_KRAFT_VERSION: Final = 1
# Below each of these a log has been once. The cleaner's tells no more: brokers put it right where it is too large.
_REACHED: Final = (OffsetCheckpoint.RECOVERY_POINT, OffsetCheckpoint.LOG_START, OffsetCheckpoint.HIGH_WATERMARK)


class PartitionPlace(NamedTuple):
    """A partition's directory, what is known of it before anybody looks, and how large its log is."""

    log_dir: str
    name: str
    partition: Partition
    expected: PartitionExpectation
    size_bytes: int

    def located(self, finding: Finding) -> Finding:
        """A finding of the directory, as seen from the store."""
        topic, number = self.partition
        return finding.within(self.name, log_dir=self.log_dir, topic=topic, partition=number)


class LogDirCheck:
    """The check of a log directory; `findings` are about nothing that is inside of a partition's directory.

    Raises `OSError` if the directory cannot be listed.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.path = path
        self.findings: list[Finding] = []
        self.properties: MetaProperties | None = None
        self._files = files
        self.listing = Listing.of(
            {name: parse_directory_name(name) for name in sorted(files.names(path)) if self._is_directory(name)}
        )
        self._read_properties()
        for name in self.listing.foreign:
            reason = "no broker starts while such a directory is here"
            self._report(damage(FindingKind.FOREIGN_DIRECTORY, name, reason))

    @property
    def is_store(self) -> bool:
        """Whether there is anything of a log directory here."""
        has_partitions = bool(self.listing.partitions or self.listing.unattached)
        return has_partitions or self._files.status(self.path / META_PROPERTIES_NAME) is not None

    def places(self, compacted: Collection[str], void: Collection[str]) -> list[PartitionPlace]:
        """The partitions, in the order of their names, but those that are void; these topics are compacted."""
        offsets = self._read_checkpoints()
        is_clean = self._files.status(self.path / CLEAN_MARKER_NAME) is not None
        has_topic_id = self.properties is not None and self.properties.version == _KRAFT_VERSION
        places = []
        for name in sorted(self.listing.partitions):
            if str(name) in void:
                continue
            partition = (name.topic, name.partition)
            expected = PartitionExpectation(
                directory=str(self.path / str(name)),
                is_clean=is_clean,
                has_topic_id=has_topic_id,
                is_compacted=name.topic in compacted or partition in offsets[OffsetCheckpoint.FIRST_DIRTY],
                start_offset=offsets[OffsetCheckpoint.LOG_START].get(partition, 0),
                reached={each.value: offsets[each][partition] for each in _REACHED if partition in offsets[each]},
            )
            size_bytes = self._size_bytes(self.path / str(name))
            places.append(PartitionPlace(str(self.path), str(name), partition, expected, size_bytes))
        return places

    def _is_directory(self, name: str) -> bool:
        status = self._files.status(self.path / name)
        return status is not None and status.is_directory

    def _read_properties(self) -> None:
        try:
            self.properties = read_meta_properties(self._files, self.path)
        except CorruptMetadataError as error:
            self._report(damage(FindingKind.META_PROPERTIES, META_PROPERTIES_NAME, error.reason))
        except OSError as error:
            self._report(unreadable(META_PROPERTIES_NAME, error))

    def _read_checkpoints(self) -> _Offsets:
        offsets: _Offsets = {}
        for checkpoint in OffsetCheckpoint:
            offsets[checkpoint] = {}
            try:
                offsets[checkpoint] = read_offsets(self._files, self.path, checkpoint)
            except CorruptCheckpointError as error:
                self._report(damage(FindingKind.CHECKPOINT, checkpoint.value, error.reason))
            except OSError as error:
                self._report(unreadable(checkpoint.value, error))
        return offsets

    def _size_bytes(self, directory: Path) -> int:
        """How many bytes of logs a partition has, as far as anybody may know."""
        try:
            names = [name for name in self._files.names(directory) if name.endswith(Kind.LOG)]
            found = [self._files.status(directory / name) for name in names]
        except OSError:
            return 0
        return sum(status.size_bytes for status in found if status is not None)

    def _report(self, finding: Finding) -> None:
        self.findings.append(finding.within("", log_dir=str(self.path)))
