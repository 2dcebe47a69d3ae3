"""The bare log directories of a store, as the mount point of a disk that is not mounted is, and what is missing then.

A broker writes a file into each log directory that it has. So a directory with nothing in it is one of a disk that is
not mounted, or of one that was just added. Which it is, the other log directories may know: the cluster's metadata log
names the partitions of this broker, and a store that kafkafs made has all partitions of its topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import StorageError
from storage.log_dir.meta_properties import KRAFT_VERSION
from storage.log_dir.names import DirectoryName
from storage.log_dir.recognition import is_bare

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from storage.cluster.metadata_log import MetadataLog
    from storage.files import Directory
    from storage.internal import ClusterImage
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.meta_properties import MetaProperties
    from storage.log_dir.settings_file import SettingsFileContents

_NAMED_MAX: Final = 100
_BARE: Final = "the directory is empty: its disk may not be mounted"
PLACING_RECORDS: Final = ("TopicRecord", "RemoveTopicRecord", "PartitionRecord", "PartitionChangeRecord")
"""The types of the records that say which partitions there are, and on which brokers."""


class BareLogDir(NamedTuple):
    """A bare log directory, and the partitions that are in no log directory although this broker has them.

    If `is_damage`, something is missing; otherwise the disk may have been added, and nothing was on it.
    """

    directory: Directory
    partitions: tuple[Partition, ...]
    is_damage: bool
    reason: str


class Surroundings(NamedTuple):
    """What the other log directories of the store say: each of their `properties`, and the files that are in one."""

    properties: Collection[MetaProperties]
    settings: SettingsFileContents
    metadata_log: MetadataLog | None
    partitions: Collection[Partition]

    def missing(self) -> set[Partition] | None:
        """Return the partitions that this broker has and that are not here; None if that is not known."""
        if self.settings.is_made_here:
            return self._missing_of_own()
        node_id = next((each.node_id for each in self.properties), None)
        if self.metadata_log is None or node_id is None:
            return None

        def asked(image: ClusterImage) -> set[Partition] | None:
            return None if image.why_unknown(*PLACING_RECORDS) else set(image.assigned_to(node_id))

        try:
            assigned = self.metadata_log.ask(asked)
        except (StorageError, OSError):
            return None
        if assigned is None or self.metadata_log.damage is not None:
            return None
        return assigned.difference(self.partitions)

    def _missing_of_own(self) -> set[Partition]:
        """Return those below the highest number of each topic, and the first of a topic of which none is here."""
        counts = {topic: 1 for topic, known in self.settings.topics.items() if known.is_made_here}
        for topic, number in self.partitions:
            counts[topic] = max(counts.get(topic, 1), number + 1)
        due = ((topic, number) for topic, count in counts.items() for number in range(count))
        return {each for each in due if str(DirectoryName(*each)) not in self.settings.void}.difference(self.partitions)

    @property
    def lacks_first_log_dir(self) -> bool:
        """True if a KRaft broker's metadata log is not here, nor the settings file of a store that kafkafs made."""
        is_kraft = any(each.version == KRAFT_VERSION for each in self.properties)
        return is_kraft and self.metadata_log is None and not self.settings.is_made_here


def bare_directories(directories: Sequence[Directory]) -> list[Directory]:
    """Return those of several log directories that are bare. The only one of a store may be one that is to be made."""
    return [each for each in directories if is_bare(each)] if len(directories) > 1 else []


def described(bare: Iterable[Directory], around: Surroundings) -> list[BareLogDir]:
    """Return what is known of each bare log directory of a store."""
    directories = list(bare)
    missing = around.missing() if directories else None
    return [_described(each, missing, around) for each in directories]


def _described(directory: Directory, missing: set[Partition] | None, around: Surroundings) -> BareLogDir:
    if missing:
        named = ", ".join(str(DirectoryName(*each)) for each in sorted(missing)[:_NAMED_MAX])
        more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
        count = (
            "1 partition of this broker is" if len(missing) == 1 else f"{len(missing)} partitions of this broker are"
        )
        reason = f"{_BARE}; {count} in no log directory: {named}{more}"
        return BareLogDir(directory, tuple(sorted(missing)), is_damage=True, reason=reason)
    if missing is not None:
        return BareLogDir(directory, (), is_damage=False, reason=f"{_BARE}, or was added; no partition is missing")
    if around.lacks_first_log_dir:
        reason = f"{_BARE}; the cluster's metadata log is in no log directory, so the partitions missing are not known"
        return BareLogDir(directory, (), is_damage=True, reason=reason)
    reason = f"{_BARE}, or was added; whether partitions are missing is not known"
    return BareLogDir(directory, (), is_damage=False, reason=reason)
