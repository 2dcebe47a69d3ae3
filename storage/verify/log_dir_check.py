"""One log directory checked from outside: the files at its top, and which partitions there are to verify."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import CorruptCheckpointError, CorruptMetadataError, SpecialFileError
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.log_dir import Listing
from storage.log_dir.meta_properties import KRAFT_VERSION, META_PROPERTIES_NAME, read_meta_properties, startup_flaw
from storage.log_dir.names import CLUSTER_METADATA, DirectoryState, parse_directory_name
from storage.segment.names import Kind
from storage.verify.cluster_metadata_check import check_metadata_snapshot
from storage.verify.context import PartitionExpectation, outdated, reached, was_closed
from storage.verify.finding import Finding, FindingKind, FindingList, damage, stranger, unreadable

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TypeAlias

    from storage.files import Directory, FileStatus
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.meta_properties import MetaProperties

    _Offsets: TypeAlias = dict[OffsetCheckpoint, dict[Partition, int]]

_NO_START: Final = "no broker starts with it"
_BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"  # the records that a KRaft cluster began with


class PartitionTarget(NamedTuple):
    """A partition to verify: its directory, what is expected of it, and the size of its log.

    One whose `state` is not `CURRENT` is being copied from another log directory, or is a stray.
    """

    log_dir: Directory
    name: str
    partition: Partition
    expected: PartitionExpectation
    size_bytes: int
    state: DirectoryState = DirectoryState.CURRENT

    def located(self, finding: Finding) -> Finding:
        """Return a finding of the directory as one of the store."""
        topic, number = self.partition
        return finding.within(self.name, log_dir=self.log_dir.path, topic=topic, partition=number)


class Compacted(NamedTuple):
    """The partitions known to be compacted: topics by their settings, and partitions by a cleaner's checkpoint.

    `current` are the partitions in the store. Nothing is known of a partition that is copied from elsewhere, nor of a
    stray, whose topic may be another one of that name.
    """

    topics: Collection[str]
    partitions: Collection[Partition]
    current: Collection[Partition]

    def allows_offset_gaps(self, partition: Partition, state: DirectoryState) -> bool:
        """Return True if offsets that the partition lacks may have been compacted away."""
        is_copied = state is DirectoryState.FUTURE and partition not in self.current
        is_unknown = is_copied or state is DirectoryState.STRAY
        return partition[0] in self.topics or partition in self.partitions or is_unknown


class LogDirCheck:
    """The check of a log directory; `findings` are about nothing inside a partition's directory.

    Raises `OSError` if the directory cannot be listed.
    """

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.findings: list[Finding] = []
        self.properties: MetaProperties | None = None
        found = self.directory.statuses()
        self.listing = Listing.of(
            {name: parse_directory_name(name) for name in sorted(found) if self._is_directory(name, found[name])}
        )
        for name, status in sorted(found.items()):
            refusal = self.directory.refusal(name, status)
            if refusal is not None and not self._is_directory(name, status):
                self._report(stranger(name, refusal))
        self._read_properties()
        for name in self.listing.foreign:
            reason = "no broker starts while such a directory is here"
            self._report(damage(FindingKind.FOREIGN_DIRECTORY, name, reason))
        self._offsets = self._read_checkpoints()
        self._check_bootstrap()

    @property
    def cleaned(self) -> Collection[Partition]:
        """The partitions in the cleaner's checkpoint."""
        return self._offsets[OffsetCheckpoint.FIRST_DIRTY].keys()

    def targets(self, compacted: Compacted, void: Collection[str]) -> list[PartitionTarget]:
        """Return the partitions, copies on their way here, and strays by name, without those that are `void`.

        If a copy or a stray has the name of a partition that is here too, the checkpoints are about that one. The clean
        shutdown marker says nothing of strays, which a broker does not close, nor of the cluster's metadata log, which
        a broker opens before it removes the marker, and recovers at each start.
        """
        offsets, current = self._offsets, {(name.topic, name.partition) for name in self.listing.partitions}
        is_clean = was_closed(self.directory)
        has_topic_id = self.properties is not None and self.properties.version == KRAFT_VERSION
        outdated_names = outdated(self.directory, is_clean=is_clean)
        unattached = [name for name in self.listing.unattached if name.state.is_recovered]
        targets = []
        for name in sorted([*self.listing.partitions, *unattached]):
            if str(name) in void:
                continue
            partition = (name.topic, name.partition)
            is_current = name.state is DirectoryState.CURRENT
            is_spoken_of = is_current or partition not in current
            is_metadata = is_current and name.topic == CLUSTER_METADATA
            expected = PartitionExpectation(
                directory=self.directory.at(str(name)),
                is_clean=is_clean and name.state is not DirectoryState.STRAY and not is_metadata,
                has_topic_id=has_topic_id and is_current,  # a copy is given its id when it is complete
                is_compacted=compacted.allows_offset_gaps(partition, name.state),
                start_offset=offsets[OffsetCheckpoint.LOG_START].get(partition, 0) if is_spoken_of else 0,
                reached=reached(offsets, partition) if is_spoken_of else {},
                outdated=outdated_names,
                is_cluster_metadata=is_metadata,
                spoken_of=partition if is_spoken_of else None,
            )
            size_bytes = _log_bytes(expected.directory)
            targets.append(PartitionTarget(self.directory, str(name), partition, expected, size_bytes, name.state))
        return targets

    def _is_directory(self, name: str, status: FileStatus) -> bool:
        if not status.is_link or not self.directory.follows_partitions:
            return status.is_directory
        with suppress(OSError):  # a link to nothing, or to itself
            led_to = self.directory.at(name).own_status()
            return led_to is not None and led_to.is_directory
        return False

    def _read_properties(self) -> None:
        try:
            self.properties = read_meta_properties(self.directory)
        except CorruptMetadataError as error:
            self._report(damage(FindingKind.META_PROPERTIES, META_PROPERTIES_NAME, f"{error.reason}; {_NO_START}"))
        except IsADirectoryError:
            self._report(damage(FindingKind.META_PROPERTIES, META_PROPERTIES_NAME, f"it is a directory; {_NO_START}"))
        except SpecialFileError:
            pass  # reported already
        except OSError as error:
            self._report(unreadable(META_PROPERTIES_NAME, error))
        flaw = None if self.properties is None else startup_flaw(self.properties)
        if flaw is not None:
            self.properties = None
            self._report(damage(FindingKind.META_PROPERTIES, META_PROPERTIES_NAME, f"{flaw}; {_NO_START}"))

    def _read_checkpoints(self) -> _Offsets:
        offsets: _Offsets = {}
        for checkpoint in OffsetCheckpoint:
            offsets[checkpoint] = {}
            try:
                offsets[checkpoint] = read_offsets(self.directory, checkpoint)
            except CorruptCheckpointError as error:
                self._report(damage(FindingKind.CHECKPOINT, checkpoint.value, error.reason))
            except SpecialFileError:
                continue  # reported already
            except OSError as error:
                self._report(unreadable(checkpoint.value, error))
        return offsets

    def _check_bootstrap(self) -> None:
        findings = FindingList()
        with suppress(FileNotFoundError):
            check_metadata_snapshot(self.directory, _BOOTSTRAP_NAME, findings)
        for finding in findings.all():
            self._report(finding)

    def _report(self, finding: Finding) -> None:
        self.findings.append(finding.within("", log_dir=self.directory.path))


def _log_bytes(directory: Directory) -> int:
    """Return the size of a partition's log; 0 if it cannot be listed."""
    try:
        found = [directory.status(name) for name in directory.names() if name.endswith(Kind.LOG)]
    except OSError:
        return 0
    return sum(status.size_bytes for status in found if status is not None)
