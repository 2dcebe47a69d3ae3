"""A store's partitions at one moment, each with the log directory that it is in.

An `Inventory` never changes, so its holder may go through it while the store gets another.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Self

from storage.errors import DuplicatePartitionError
from storage.files import in_order
from storage.log_dir.names import CLUSTER_METADATA, DirectoryName, DirectoryState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from storage.files import Directory
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import Listing, LogDir


class ForeignDirectory(NamedTuple):
    """A directory in a log directory that no broker puts up with."""

    log_dir: LogDir
    name: str

    @property
    def path(self) -> Path:
        """The path of the directory."""
        return self.log_dir.path / self.name


class Inventory:
    """Topics and their partitions, ascending, and what else there is.

    `unattached` are the directories of partitions that are deleted, stray or being copied; `foreign` are those that no
    broker puts up with. `links` stand where a partition, a copy or a stray would.
    """

    def __init__(
        self,
        topics: Mapping[str, Mapping[int, LogDir]],
        unattached: tuple[tuple[LogDir, DirectoryName], ...] = (),
        foreign: tuple[ForeignDirectory, ...] = (),
        links: tuple[tuple[LogDir, DirectoryName], ...] = (),
    ) -> None:
        self.topics = topics
        self.unattached = unattached
        self.foreign = foreign
        self.links = links

    @classmethod
    def of(
        cls, listings: Mapping[LogDir, Listing], hidden: Collection[Partition], earlier: Inventory | None = None
    ) -> Self:
        """Build it from listings, without what is hidden. The topics that are as they were are those of `earlier`.

        Raises `DuplicatePartitionError` for a partition in two places, unless `earlier` knows it in one of them: that
        is how it looks for a moment when a broker moves it.
        """
        found: dict[str, dict[int, LogDir]] = {}
        for log_dir, listing in listings.items():
            for name in listing.partitions:
                if (name.topic, name.partition) in hidden:
                    continue
                place = found.setdefault(name.topic, {}).setdefault(name.partition, log_dir)
                if place is not log_dir:
                    settled = None if earlier is None else earlier.log_dir(name.topic, name.partition)
                    if settled is None:
                        raise DuplicatePartitionError(
                            f"{place.path / str(name)} is the same partition; move one of the two out of the store",
                            path=log_dir.path / str(name),
                        )
                    found[name.topic][name.partition] = settled
        known = {} if earlier is None else earlier.topics
        return cls(
            MappingProxyType(
                {topic: _partitions(found.pop(topic), known.get(topic)) for topic in in_order(list(found))}
            ),
            tuple((log_dir, name) for log_dir, listing in listings.items() for name in in_order(listing.unattached)),
            tuple(
                ForeignDirectory(log_dir, name)
                for log_dir, listing in listings.items()
                for name in in_order(listing.foreign)
            ),
            tuple((log_dir, name) for log_dir, listing in listings.items() for name in in_order(listing.links)),
        )

    @property
    def recovered_beside(self) -> tuple[tuple[LogDir, DirectoryName], ...]:
        """The directories that a broker recovers although they are no topic's partition now: copies and strays.

        The name says the topic and the partition; a stray with a long name has lost the end of the topic.
        """
        return tuple((log_dir, name) for log_dir, name in self.unattached if name.state.is_recovered)

    def without(self, topic: str) -> Inventory:
        """Return the same without one topic."""
        topics = {name: partitions for name, partitions in self.topics.items() if name != topic}
        return Inventory(MappingProxyType(topics), self.unattached, self.foreign, self.links)

    def lack_of(self, topic: str, partition: int | None = None) -> str:
        """Return the sentence that there is no such topic, or no such partition of it, and which link stands there."""
        lack = f"there is no topic {topic!r}"
        if partition is not None:
            lack = f"the topic {topic} has no partition {partition}"
        for log_dir, name in self.links:
            if name.topic == topic and partition in {None, name.partition}:
                return f"{lack}: {log_dir.path / str(name)} is a symbolic link, which --follow-links follows"
        return lack

    def log_dir(self, topic: str, partition: int) -> LogDir | None:
        """Return the log directory that a partition is in, None if there is no such partition."""
        return self.topics.get(topic, {}).get(partition)

    def directory(self, topic: str, partition: int) -> Directory | None:
        """Return the partition's directory; None if it is missing."""
        log_dir = self.log_dir(topic, partition)
        return None if log_dir is None else log_dir.directory.at(str(DirectoryName(topic, partition)))

    def partitions(self) -> set[Partition]:
        """All of them."""
        return {(topic, partition) for topic, partitions in self.topics.items() for partition in partitions}

    def changed_in(self, later: Inventory) -> tuple[set[Partition], set[Partition]]:
        """Return those that a later one does not have, and those that it has in another log directory."""
        gone: set[Partition] = set()
        moved: set[Partition] = set()
        for topic, partitions in self.topics.items():
            those = later.topics.get(topic, {})
            if those is partitions:
                continue
            for partition, log_dir in partitions.items():
                found = those.get(partition)
                if found is not log_dir:
                    (gone if found is None else moved).add((topic, partition))
        return gone, moved

    def in_order(self) -> Iterator[Partition]:
        """Iterate over all of them, by the topics' names and by their numbers."""
        return ((topic, partition) for topic, partitions in self.topics.items() for partition in partitions)

    def has_only_metadata(self, log_dir: LogDir) -> bool:
        """True if the cluster's metadata log is all that a log directory has, as `metadata.log.dir` has.

        A broker writes no clean-shutdown marker there, and neither believes nor removes one.
        """
        there = {name.topic for at, name in self.unattached if at is log_dir}
        there.update(topic for topic, partitions in self.topics.items() if log_dir in partitions.values())
        return there == {CLUSTER_METADATA}

    def load(self, log_dirs: Collection[LogDir]) -> dict[LogDir, int]:
        """Return the number of partitions in each log directory, with those that are being copied there."""
        counts = Counter(log_dir for partitions in self.topics.values() for log_dir in partitions.values())
        counts.update(log_dir for log_dir, name in self.unattached if name.state is DirectoryState.FUTURE)
        return {log_dir: counts[log_dir] for log_dir in log_dirs}


def _partitions(found: Mapping[int, LogDir], known: Mapping[int, LogDir] | None) -> Mapping[int, LogDir]:
    """Return a topic's partitions in their order; the known ones, if they are these."""
    if known is not None and known == found:
        return known
    return MappingProxyType({number: found[number] for number in in_order(list(found))})
