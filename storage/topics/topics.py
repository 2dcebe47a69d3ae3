"""The topics of a store and their settings: found, made, changed and deleted.

A topic is made whole or not at all, and so it is deleted; a crash at any moment changes nothing about that. Which of
its settings a broker knows and we do not is left to those who ask.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import islice
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.config import check_topic_setting
from storage.errors import (
    CorruptMetadataError,
    InvalidTopicError,
    ReadOnlyStoreError,
    UnknownPartitionError,
    in_words,
    is_full_disk,
    missing_file,
)
from storage.ids import random_id
from storage.log.partition_metadata import read_topic_id
from storage.log_dir.inventory import Inventory
from storage.log_dir.log_dir import Listing, LogDir
from storage.log_dir.names import CLUSTER_METADATA, DirectoryName, DirectoryState, check_new_topic
from storage.log_dir.partition_directories import PartitionDirectories
from storage.log_dir.removals import Doomed, Removals
from storage.log_dir.settings_file import KnownTopic, SettingsFile
from storage.topics.bare_log_dirs import Surroundings
from storage.topics.checkpointing import forget_checkpoints, note_compaction
from storage.topics.cluster_metadata import ClusterMetadata
from storage.topics.effective_settings import EffectiveSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from storage.clock import Clock
    from storage.config import StoreConfig, TopicConfig
    from storage.files import Directory
    from storage.log.readable_log import ReadableLog
    from storage.log_dir.checkpoints import Partition
    from storage.topics.open_logs import OpenLogs

PARTITIONS_MAX: Final = 100_000
"""The most partitions that a topic can be made with: more is a slip of the finger."""

_IDS_READ_MAX: Final = 100
_CLEANUP_POLICY: Final = "cleanup.policy"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})

logger = logging.getLogger(__name__)


class _Listed(NamedTuple):
    """An inventory, and the listings that it was made of, without the partitions that are void."""

    listings: Mapping[LogDir, Listing]
    void: Collection[Partition]
    inventory: Inventory

    def is_of(self, listings: Mapping[LogDir, Listing], void: Collection[Partition]) -> bool:
        """True if it would be made of these too."""
        return self.void == void and all(listings[log_dir] is listing for log_dir, listing in self.listings.items())


class Topics:
    """The topics in some log directories, which are locked if they are writable.

    `inventory` is what was there when somebody last looked, less what this made or deleted since. `made` are the
    partitions made here. The metadata log of `cluster`, which `follow` opens, tells the settings of a broker's topics.
    Any thread may call anything; changes wait for each other, and nothing else waits for them.
    """

    def __init__(
        self,
        log_dirs: Sequence[LogDir],
        logs: OpenLogs,
        *,
        clock: Clock,
        config: StoreConfig,
        entropy: Callable[[int], bytes],
        is_writable: bool,
        follow: Callable[[str, int], ReadableLog],
    ) -> None:
        self.removals = Removals()
        found = (log_dir.properties for log_dir in log_dirs)
        cluster_id = next((each.cluster_id for each in found if each is not None and each.cluster_id), None)
        self.settings_file = SettingsFile.find([log_dir.directory for log_dir in log_dirs], cluster_id)
        self.made: set[Partition] = set()
        self._log_dirs = log_dirs
        self._logs = logs
        self._clock = clock
        self._config = config
        self._entropy = entropy
        self._is_writable = is_writable
        self._directories = PartitionDirectories(log_dirs, self.settings_file, entropy)
        self._defaults = config.topic()
        self.cluster = ClusterMetadata(
            log_dirs,
            find=lambda: self.directory(CLUSTER_METADATA, 0),
            follow=lambda: follow(CLUSTER_METADATA, 0),
            is_made_here=lambda: self.is_store_made_here,
        )
        self._settings = EffectiveSettings(config, self.settings_file, self.cluster, self.topic_id)
        self._changing = RLock()
        self._lost: set[LogDir] = set()
        self._listed: _Listed | None = None
        self.inventory = self._inventory(None, LogDir.scan)

    # What there is

    def look(self) -> None:
        """See what is there by now, and what the settings file says if it may be another's.

        It costs a look at each log directory if nothing has come or gone; the inventory is then the same object.
        """
        self._look(LogDir.listing)

    def _look(self, listing_of: Callable[[LogDir], Listing]) -> None:
        with self._changing:
            if not self._is_writable:
                self.settings_file.reload()
                self._settings.look()
            before, self.inventory = self.inventory, self._inventory(self.inventory, listing_of)
            if self.inventory is not before:
                self._take_leave(before)
            if self._is_writable:
                self._schedule_removals()

    def _take_leave(self, before: Inventory) -> None:
        """Close the logs of partitions that are gone, or were moved."""
        gone, moved = before.changed_in(self.inventory)
        if gone:  # one that was moved during the listing may have escaped it
            self.inventory = self._inventory(before, LogDir.scan)
            gone, moved = before.changed_in(self.inventory)
        if self._is_writable:
            self._say_gone(gone, before)
            self._say_moved(moved)
            gone |= moved  # whose logs are opened there when asked for
        self._logs.discard(gone)

    def look_unless_changing(self) -> None:
        """Do as `look`, without waiting for somebody who changes something just now: he looks himself."""
        if self._changing.acquire(blocking=False):
            try:
                self.look()
            finally:
                self._changing.release()

    def _say_gone(self, gone: Collection[Partition], before: Inventory) -> None:
        """Log the partitions that another process took away, which none should while the store is locked."""
        for topic, partition in sorted(gone):
            log_dir = before.log_dir(topic, partition)
            if log_dir is not None and log_dir not in self._lost:
                logger.error("%s-%d is gone: somebody removed its directory from %s", topic, partition, log_dir.path)

    def _say_moved(self, moved: Collection[Partition]) -> None:
        """Log the partitions that another process moved to another log directory."""
        for topic, partition in sorted(moved):
            logger.error("%s-%d was moved to %s", topic, partition, self.location(topic, partition)[1].path)

    def _inventory(self, earlier: Inventory | None, listing_of: Callable[[LogDir], Listing]) -> Inventory:
        is_first = earlier is None
        listings = {log_dir: self._listing(log_dir, listing_of, is_first=is_first) for log_dir in self._log_dirs}
        void = self._directories.void()
        known = self._listed
        if known is not None and known.inventory is earlier and known.is_of(listings, void):
            return known.inventory
        inventory = Inventory.of(listings, void, earlier)
        self._listed = _Listed(listings, void, inventory)
        return inventory

    def _listing(self, log_dir: LogDir, listing_of: Callable[[LogDir], Listing], *, is_first: bool) -> Listing:
        """List a log directory. One that is gone counts as empty, so that the others go on."""
        try:
            if self._is_writable and not is_first and not log_dir.is_there():
                raise missing_file(log_dir.path)
            listing = listing_of(log_dir)
        except OSError as error:
            if is_first:
                raise
            if log_dir not in self._lost:
                logger.error("the log directory %s and all that is in it are gone: %s", log_dir.path, error)  # noqa: TRY400
                self._lost.add(log_dir)
            return Listing((), (), ())
        self._lost.discard(log_dir)
        return listing

    def interrupted(self) -> list[tuple[LogDir, DirectoryName]]:
        """The directories of topics that were being made or deleted, to which `finish_interrupted` renames."""
        return self._directories.void_directories()

    def finish_interrupted(self) -> None:
        """Remove what a crash left of topics that were being made or deleted, as soon as the disk has room."""
        with self._changing:
            try:
                self._directories.clear_void()
            except OSError as error:
                if not is_full_disk(error):  # on a full disk the store has to open, so that retention makes room
                    raise
                logger.warning("what was left of topics is removed by the next change: %s", in_words(error))
            self._look(LogDir.scan)

    def _schedule_removals(self) -> None:
        due_ms = self._clock.now_ms() + self._defaults.file_delete_delay_ms
        for log_dir, name in self.inventory.unattached:
            if name.state is DirectoryState.DELETE:
                self.removals.add(Doomed(log_dir.directory, str(name)), due_ms)

    def partitions(self, topic: str) -> Mapping[int, LogDir]:
        """The topic's partitions and where they are; raises `UnknownPartitionError` if there is no such topic."""
        found = self.inventory.topics.get(topic)
        if found is None:
            raise UnknownPartitionError(self.inventory.lack_of(topic))
        return found

    def location(self, topic: str, partition: int) -> tuple[Directory, LogDir]:
        """Return the partition's directory and its log directory; raises `UnknownPartitionError` if there is none."""
        log_dir = self.partitions(topic).get(partition)
        if log_dir is None:
            raise UnknownPartitionError(self.inventory.lack_of(topic, partition))
        return log_dir.directory.at(str(DirectoryName(topic, partition))), log_dir

    def directory(self, topic: str, partition: int) -> Directory:
        """Return where the partition is; raises `UnknownPartitionError` if there is no such partition."""
        return self.location(topic, partition)[0]

    def topic_id(self, topic: str) -> UUID | None:
        """The id that the topic's first partition here bears; None for a topic of a broker that gave it none.

        A partition whose file cannot be read is passed over. Raises `CorruptMetadataError` or `OSError` if no
        partition has one that can be read, of very many the first ones.
        """
        partitions = self.partitions(topic)
        for partition in islice(partitions, _IDS_READ_MAX):
            with suppress(CorruptMetadataError, OSError):
                return read_topic_id(self.directory(topic, partition))
        return read_topic_id(self.directory(topic, next(iter(partitions))))

    # What holds

    def config(self, topic: str) -> TopicConfig:
        """Return the topic's settings. Raises `ConfigError` if its settings on disk are not allowed."""
        self.partitions(topic)
        return self._settings.config(topic)

    def store_config(self, topic: str) -> StoreConfig:
        """Return the store's settings for opening a log of the topic."""
        return self._settings.store_config(topic)

    @property
    def is_store_made_here(self) -> bool:
        """True if kafkafs made the store, and not a broker."""
        return self.settings_file.current.is_made_here

    def surroundings(self) -> Surroundings:
        """What these log directories say about others of the same store that are bare."""
        properties = [each.properties for each in self._log_dirs if each.properties is not None]
        partitions = self.inventory.partitions()
        return Surroundings(properties, self.settings_file.current, self.cluster.log(), partitions)

    def is_made_here(self, topic: str) -> bool:
        """True if kafkafs made the topic, so that nothing was ever done to its logs but what our own file knows of."""
        return self._settings.written(topic).is_made_here

    def known(self, topic: str) -> KnownTopic:
        """The settings of the topic itself, as far as our own file and the metadata log have them."""
        return self._settings.known(topic)

    def change_config(self, topic: str, changes: Mapping[str, str | None]) -> TopicConfig:
        """Set these settings of the topic, or unset those that are None; returns the effective ones.

        That is durable, and applies to later writes. A value that the metadata log gives the topic is not written down
        beside it. Raises `ConfigError` if the topic cannot have them together with those that it has; then nothing has
        changed.
        """
        with self._changing:
            self._check_writable(topic)
            known = self._settings.written(topic)
            kept = dict(known.settings)
            for key, value in changes.items():
                checked = None if value is None else check_topic_setting(key, value)
                if checked is None:
                    kept.pop(key, None)
                elif key in kept or not self._settings.is_told(topic, key, checked):
                    kept[key] = checked
            changed = KnownTopic(self.topic_id(topic), known.is_made_here, MappingProxyType(kept))
            config = self._settings.config_with(topic, changed)
            if not config.compact:
                self._note_compaction(topic, known)
            self.settings_file.replace(self.settings_file.current.with_topic(topic, changed))
            self._logs.configure(topic, config)
            return config

    def _note_compaction(self, topic: str, known: KnownTopic) -> None:
        """Remember that the logs of a topic that is no longer compacted may lack offsets."""
        policy = known.settings.get(_CLEANUP_POLICY, self._defaults.value(_CLEANUP_POLICY))
        if known.is_made_here and "compact" in policy:
            note_compaction({(topic, number): log_dir for number, log_dir in self.partitions(topic).items()})

    # Making and deleting

    def create(self, topic: str, partitions: int | None = None, settings: Mapping[str, str] = _NONE) -> None:
        """Make a topic of so many partitions, by default as many as the broker's settings say, with these settings.

        Each goes to the log directory that holds the fewest. The topic is there, durably, when this returns. Raises
        `InvalidTopicError` or `ConfigError`; then nothing has changed.
        """
        count = self._config.num_partitions if partitions is None else partitions
        with self._changing:
            self._check_writable(topic)
            if not 1 <= count <= PARTITIONS_MAX:
                raise InvalidTopicError(f"a topic has from 1 to {PARTITIONS_MAX} partitions, not {count}")
            check_new_topic(topic, self.inventory.topics)
            normal = {key: check_topic_setting(key, value) for key, value in settings.items()}
            self._config.topic(normal)
            topic_id = random_id(self._entropy)
            known = KnownTopic(topic_id, is_made_here=True, settings=MappingProxyType(normal))
            self._make([(topic, number) for number in range(count)], topic_id, known)

    def add_partition(self, topic: str) -> int:
        """Add a partition to the topic, durably, and return its number."""
        with self._changing:
            self._check_writable(topic)
            number = max(self.partitions(topic)) + 1
            known = self.settings_file.current.topics.get(topic)
            self._make([(topic, number)], self.topic_id(topic), known)
            return number

    def _make(self, partitions: Sequence[Partition], topic_id: UUID | None, known: KnownTopic | None) -> None:
        self._directories.clear_void()
        forget_checkpoints(self._log_dirs, set(partitions))
        current = self.settings_file.current
        committed = current if known is None else current.with_topic(partitions[0][0], known)
        try:
            self._directories.make(self.log_dirs_for(partitions), topic_id, committed)
            self.made.update(partitions)
        finally:
            self._look(LogDir.scan)

    def log_dirs_for(self, partitions: Sequence[Partition]) -> dict[Partition, LogDir]:
        """Return where each new partition would be made: in the log directory that has the fewest at that point."""
        there = [log_dir for log_dir in self._log_dirs if log_dir not in self._lost] or self._log_dirs
        # Brokers look for partitions in log.dirs only, and not in metadata.log.dir.
        load = self.inventory.load([each for each in there if not self.inventory.has_only_metadata(each)] or there)
        chosen = {}
        for partition in partitions:
            log_dir = min(load, key=lambda each: load[each])
            chosen[partition] = log_dir
            load[log_dir] += 1
        return chosen

    def delete(self, topic: str) -> list[Doomed]:
        """Delete a topic, durably, and return the directories that are left to remove.

        They are among `removals` too, where they become due later.
        """
        with self._changing:
            self._check_writable(topic)
            partitions = {(topic, number) for number in self.partitions(topic)}
            topic_id = self.topic_id(topic)
            self._directories.clear_void()
            self.inventory = self.inventory.without(topic)  # so that its logs are not opened again
            try:
                self._logs.discard(partitions)
                committed = self.settings_file.current.without_topic(topic)
                doomed = self._directories.delete(partitions, topic_id, committed)
                self.made -= partitions
            finally:
                self._settings.look()
                self._look(LogDir.scan)
            try:
                forget_checkpoints(self._log_dirs, partitions)
            except OSError as error:  # a namesake that is made later sees to it again
                logger.warning("the checkpoints still have %s, which is gone: %s", topic, error)
            return doomed

    def _check_writable(self, topic: str) -> None:
        if not self._is_writable:
            raise ReadOnlyStoreError("the store is open for reading only", path=self._log_dirs[0].path)
        if topic == CLUSTER_METADATA:
            raise InvalidTopicError(f"{topic} is the cluster's own log, which is changed by brokers alone")
