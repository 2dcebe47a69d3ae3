"""The partition to be salvaged: of a topic, or in a directory that is no topic's partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkafs.locator.descent import parse_path
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.paths import PartitionPath, UnattachedPath
from storage.config import TopicConfig
from storage.errors import UnknownPartitionError
from storage.log_dir import COMPACTED_BY_BROKERS, DirectoryName, OffsetCheckpoint, parse_directory_name

if TYPE_CHECKING:
    from storage.files import Directory
    from storage.log_dir import Partition
    from storage.store import Store


class Source(NamedTuple):
    """A partition's directory, and what the files at the top of its log directory say of it.

    The log begins at `start_offset`, as far as that is known, and has once reached `reached`. One that `is_compacted`
    lacks offsets by compaction. `homes` are the identities of the store's log directories.
    """

    directory: Directory
    partition: Partition
    config: TopicConfig
    start_offset: int = 0
    reached: int = 0
    is_compacted: bool = False
    homes: frozenset[tuple[int, int]] = frozenset()

    @property
    def name(self) -> DirectoryName:
        """The name that its directory has as a topic's partition."""
        return DirectoryName(*self.partition)


def find_source(store: Store, text: str) -> Source:
    """Return the partition that a path names: `orders/0`, `.kafkafs/unattached/DIRECTORY` or the directory's name.

    Raises `BadNameError` for another path, and `UnknownPartitionError` if there is no such partition.
    """
    inventory = store.topics.inventory
    name = parse_directory_name(text.strip("/"))
    if name is not None and name.state:
        return _unattached(store, name)
    if name is not None and inventory.log_dir(name.topic, name.partition) is not None:
        return _of_topic(store, name.topic, name.partition)
    match parse_path(text, inventory.topics):
        case PartitionPath(topic, partition):
            return _of_topic(store, topic.topic, partition)
        case UnattachedPath(directory):
            return _unattached(store, directory)
        case _:
            raise BadNameError(text, "a partition, such as orders/0, or .kafkafs/unattached/DIRECTORY")


def _of_topic(store: Store, topic: str, number: int) -> Source:
    inventory, partition = store.topics.inventory, (topic, number)
    directory, log_dir = inventory.directory(topic, number), inventory.log_dir(topic, number)
    if directory is None or log_dir is None:
        raise UnknownPartitionError(f"there is no partition {topic}/{number}")
    config = store.topics.config(topic)
    is_cleaned = partition in log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY)
    reached = [
        log_dir.offsets(each).get(partition, 0)
        for each in (OffsetCheckpoint.HIGH_WATERMARK, OffsetCheckpoint.RECOVERY_POINT)
    ]
    return Source(
        directory,
        partition,
        config,
        start_offset=log_dir.offsets(OffsetCheckpoint.LOG_START).get(partition, 0),
        reached=max(reached),
        is_compacted=config.compact or is_cleaned or topic in COMPACTED_BY_BROKERS,
        homes=_homes(store),
    )


def _unattached(store: Store, name: DirectoryName) -> Source:
    for log_dir, present in store.topics.inventory.unattached:
        if present == name:
            partition = (name.topic, name.partition)
            return Source(log_dir.directory.at(str(name)), partition, TopicConfig.resolve({}), homes=_homes(store))
    raise UnknownPartitionError(f"there is no directory {name}")


def _homes(store: Store) -> frozenset[tuple[int, int]]:
    return frozenset(log_dir.identity for log_dir in store.log_dirs)
