"""Making and deleting the directories of partitions, several at a time, all or none.

A file system renames one directory at a time, so the settings file says which are not to count: those that are being
made are void until all are there, and those that are being deleted are void from then on. The next writer that opens
the store after a crash finishes what is void. Readers pass it over.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptMetadataError
from storage.files import TEMPORARY_SUFFIX, shared_bits
from storage.log.partition_metadata import PARTITION_METADATA_NAME, read_topic_id, write_topic_id
from storage.log_dir.names import DirectoryName, DirectoryState, parse_directory_name
from storage.log_dir.removals import Doomed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from storage.files import Directory
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir
    from storage.log_dir.settings_file import SettingsFile, SettingsFileContents

_UNIQUE_ID_BYTES: Final = 16

logger = logging.getLogger(__name__)

# What a partition's directory holds until it says whose it is.
_UNFINISHED: Final = frozenset({f"{PARTITION_METADATA_NAME}{TEMPORARY_SUFFIX}"})


class PartitionDirectories:
    """The directories of partitions in some log directories that are locked, or only read."""

    def __init__(
        self,
        log_dirs: Sequence[LogDir],
        settings_file: SettingsFile,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._log_dirs = log_dirs
        self._settings_file = settings_file
        self._entropy = entropy

    def make(self, places: Mapping[Partition, LogDir], topic_id: UUID | None, committed: SettingsFileContents) -> None:
        """Make the directories of a topic's new partitions, and have the settings file say this once all are there.

        They exist durably when this returns. After an error or a crash, all of them exist or none.
        """
        names = {DirectoryName(*partition): log_dir for partition, log_dir in places.items()}
        sibling = self._directory_of({topic for topic, _ in places})
        bits = None if sibling is None else shared_bits(sibling)
        self._settings_file.replace(self._settings_file.current.with_void(map(str, names), topic_id))
        try:
            for name, log_dir in names.items():
                directory = log_dir.directory.at(str(name))
                directory.make(like=sibling)
                if topic_id is not None:
                    # The log's first files have the permissions of what is there before them.
                    write_topic_id(directory if bits is None else directory.limited(bits), topic_id)
            for log_dir in set(names.values()):
                log_dir.directory.sync()
            self._settings_file.replace(committed)
        except BaseException:
            with suppress(OSError):  # then the next change does it, or the next opening
                self.clear_void()
            raise

    def _directory_of(self, topics: Collection[str]) -> Directory | None:
        """A directory that one of the topics has, as the new ones are to be."""
        beginnings = tuple(f"{topic}-" for topic in topics)
        for log_dir in self._log_dirs:
            with suppress(OSError):  # one that was taken away keeps no topic from being made in the others
                for text in sorted(text for text in log_dir.directory.names() if text.startswith(beginnings)):
                    name = parse_directory_name(text)
                    if name is not None and name.topic in topics and name.state is DirectoryState.CURRENT:
                        return log_dir.directory.at(text)
        return None

    def delete(
        self, partitions: Iterable[Partition], topic_id: UUID | None, committed: SettingsFileContents
    ) -> list[Doomed]:
        """Delete a topic's partitions by replacing the settings file; returns the directories left to be removed.

        They are gone, durably, when this returns. After an error all of them are there, and after a crash they are gone
        or all are there.
        """
        names = [str(DirectoryName(*partition)) for partition in partitions]
        self._settings_file.replace(committed.with_void(names, topic_id))
        try:
            return self.clear_void()
        except OSError as error:  # they are gone: no reader sees what is void
            logger.warning("the directories of what was deleted are renamed later: %s", error)
            return []

    def void(self) -> set[Partition]:
        """The partitions that do not count although they may have a directory."""
        return {(name.topic, name.partition) for _, name in self._void()}

    def void_directories(self) -> list[tuple[LogDir, DirectoryName]]:
        """The directories that `clear_void` would give other names."""
        return self._void()

    def clear_void(self) -> list[Doomed]:
        """Give directories that do not count the names of deleted ones, and forget that there were any."""
        if not self._settings_file.current.void:
            return []
        renamed = []
        void = self._void()
        for log_dir, name in void:
            doomed = Doomed(
                log_dir.directory, str(name.becoming(DirectoryState.DELETE, self._entropy(_UNIQUE_ID_BYTES).hex()))
            )
            log_dir.directory.rename(str(name), doomed.name)
            renamed.append(doomed)
        for log_dir in {log_dir for log_dir, _ in void}:
            log_dir.directory.sync()
        self._settings_file.replace(self._settings_file.current.without_void())
        return renamed

    def _void(self) -> list[tuple[LogDir, DirectoryName]]:
        """The directories that do not count; one of another topic by the same name does."""
        return [
            (log_dir, name)
            for text, topic_id in self._settings_file.current.void.items()
            if (name := parse_directory_name(text)) is not None and name.state is DirectoryState.CURRENT
            for log_dir in self._log_dirs
            if _is_of(log_dir.directory.at(text), topic_id)
        ]


def _is_of(directory: Directory, topic_id: UUID | None) -> bool:
    """True if the directory is there, and belongs to the topic or to none."""
    try:
        names = directory.names()
    except (FileNotFoundError, NotADirectoryError):
        return False
    if _UNFINISHED.issuperset(names):
        return True
    try:
        return read_topic_id(directory) == topic_id
    except CorruptMetadataError:
        return False
