"""The log directories of dead brokers, as far as they can still be read; no byte of them changes.

A file at the top that is damaged says nothing, and the plan says so. What keeps a broker from starting is no reason
here: a missing or damaged `meta.properties`, a missing marker, a directory of another broker of the cluster. A
directory that cannot be listed ends the command: left out, its records would be missing in what looks complete.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import BuildError, ConfigError, CorruptCheckpointError, CorruptMetadataError
from storage.log import PARTITION_METADATA_NAME, read_topic_id
from storage.log_dir import (
    LOCK_NAME,
    SETTINGS_NAME,
    DirectoryName,
    DirectoryState,
    OffsetCheckpoint,
    check_one_cluster,
    check_revived,
    check_stores,
    parse_directory_name,
    read_meta_properties,
    read_offsets,
    read_settings_file,
)
from storage.replicas import ACCOUNT_SUFFIX, Salvaged, read_account

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from storage.files import Directory, Files
    from storage.log_dir import KnownTopic, MetaProperties, Partition


AS_THE_BROKER: Final = "run kafkafs as root or as the broker's user"
"""What to do about a directory that only its owner may read."""


class Candidate(NamedTuple):
    """A directory that has a replica of a partition; `topic_id` is None if it does not say whose."""

    disk: Disk
    name: DirectoryName
    directory: Directory
    topic_id: UUID | None

    @property
    def partition(self) -> Partition:
        """The topic and the number."""
        return self.name.topic, self.name.partition


@dataclass(eq=False, slots=True)
class Disk:
    """One log directory. `flaws` are sentences about what could not be read."""

    directory: Directory
    properties: MetaProperties | None = None
    topics: Mapping[str, KnownTopic] = field(default_factory=dict)  # by kafkafs' own settings file
    names: tuple[DirectoryName, ...] = ()
    void: frozenset[str] = frozenset()
    flaws: list[str] = field(default_factory=list)
    _offsets: dict[OffsetCheckpoint, Mapping[Partition, int]] = field(default_factory=dict)
    _salvaged: dict[Partition, Salvaged] = field(default_factory=dict)
    _topic_ids: dict[DirectoryName, tuple[UUID | None, Exception | None]] = field(default_factory=dict)

    def offset(self, checkpoint: OffsetCheckpoint, partition: Partition) -> int | None:
        """Return the partition's offset in a checkpoint, None if it has none there."""
        return self.offsets(checkpoint).get(partition)

    def offsets(self, checkpoint: OffsetCheckpoint) -> Mapping[Partition, int]:
        """Return all offsets in a checkpoint, none if it cannot be read."""
        if checkpoint not in self._offsets:
            try:
                self._offsets[checkpoint] = read_offsets(self.directory, checkpoint)
            except (CorruptCheckpointError, OSError) as error:
                self._offsets[checkpoint] = {}
                self._note(checkpoint, error)
        return self._offsets[checkpoint]

    def salvaged(self, partition: Partition) -> Salvaged:
        """Return what the account of its salvage says of a partition; without an account nothing is lost."""
        if partition not in self._salvaged:
            name, found = str(DirectoryName(*partition)), None
            try:
                found = read_account(self.directory, name)
            except (CorruptMetadataError, OSError) as error:
                self._note(f"{name}{ACCOUNT_SUFFIX}", error)
            self._salvaged[partition] = found or Salvaged((), is_compacted=False)
        return self._salvaged[partition]

    def first_dirty(self, partition: Partition) -> int | None:
        """Return how far a cleaner has compacted the partition, None if none has.

        Salvage makes the same entry for a log with holes, so that a recovery keeps what follows them: it says nothing.
        """
        dirty = self.offset(OffsetCheckpoint.FIRST_DIRTY, partition)
        salvaged = self.salvaged(partition)
        return None if dirty == 0 and salvaged.lost and not salvaged.is_compacted else dirty

    def candidates(self, states: frozenset[DirectoryState], topics: Sequence[str]) -> Iterator[Candidate]:
        """Yield the partitions of some topics, or of all if none is given, in directories of these states."""
        for name in self.names:
            if name.state not in states or (str(name) in self.void and DirectoryState.DELETE not in states):
                continue
            if topics and name.topic not in topics:
                continue
            topic_id, error = self.topic_id(name)
            directory = self.directory.at(str(name))
            if error is not None:
                path = directory.path_of(PARTITION_METADATA_NAME)
                self.flaws.append(
                    f"{path} cannot be read ({reason_of(error)}), and does not say whose the partition is"
                )
            yield Candidate(self, name, directory, topic_id)

    def topic_id(self, name: DirectoryName) -> tuple[UUID | None, Exception | None]:
        """Return the id of the topic that a directory belongs to, None if it has none, and why it cannot be read."""
        if name not in self._topic_ids:
            try:
                self._topic_ids[name] = read_topic_id(self.directory.at(str(name))), None
            except (CorruptMetadataError, OSError) as error:
                self._topic_ids[name] = None, error
        return self._topic_ids[name]

    def _note(self, name: str, error: Exception) -> None:
        self.flaws.append(f"{self.directory.path_of(name)} cannot be read ({reason_of(error)}), and is passed over")

    def read(self) -> None:
        """Read what is at the top. Raises `OSError` if the directory cannot be listed."""
        with suppress(OSError):
            if self.directory.is_locked(LOCK_NAME):
                self.flaws.append(
                    f"{self.directory} is open for writing elsewhere, so it may change while it is read; "
                    "kafkafs backup copies the store of a broker that runs"
                )
        try:
            self.properties = read_meta_properties(self.directory)
        except (CorruptMetadataError, OSError) as error:
            self._note("meta.properties", error)
        try:
            settings = read_settings_file(self.directory)
        except (ConfigError, OSError) as error:
            settings = None
            self._note(SETTINGS_NAME, error)
        if settings is not None:
            self.topics, self.void = settings.topics, frozenset(settings.void)
        names = []
        for text, status in sorted(self.directory.statuses().items()):
            name = parse_directory_name(text)
            if name is not None and status.is_directory:
                names.append(name)
            elif name is not None and status.is_link:
                self.flaws.append(f"{self.directory.path_of(text)} is a symbolic link, and is not followed")
        self.names = tuple(names)


def read_disks(files: Files, paths: Sequence[Path]) -> list[Disk]:
    """Read the top of some log directories; raises `NotAStoreError` for a path that is none, or not yet.

    Raises `CorruptMetadataError` if they are of several clusters, whose topics may have the same names.
    Raises `BuildError` for a directory that the user may not read.
    """
    disks = []
    for path in dict.fromkeys(paths):
        directory = files.add_root(path)
        disk = Disk(directory)
        try:
            check_stores([directory])
            check_revived(directory)
            disk.read()
        except PermissionError as error:
            reason = f"the log directory cannot be read ({reason_of(error)}): {AS_THE_BROKER}"
            raise BuildError(reason, path=directory) from None
        disks.append(disk)
    check_one_cluster({str(disk.directory): disk.properties for disk in disks if disk.properties is not None})
    return disks


def directories_of(disks: Iterable[Disk]) -> Iterator[Directory]:
    """Yield the log directories and those of their partitions."""
    for disk in disks:
        yield disk.directory
        yield from (disk.directory.at(str(name)) for name in disk.names)


def unreadable(directory: Directory, error: OSError) -> BuildError:
    """Return the error that ends the command where a partition cannot be read that it was to take in."""
    remedy = AS_THE_BROKER if isinstance(error, PermissionError) else "give the other log directories only"
    return BuildError(
        f"the partition cannot be read ({reason_of(error)}): {remedy}, or leave its topic out with --topics",
        path=directory,
    )


def reason_of(error: Exception) -> str:
    """Return what an error says, without its path."""
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
