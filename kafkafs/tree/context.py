"""What the nodes of one tree share: the store and its logs, the options, the clock and the counted sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.tree.errors import TooManyPartitionsError
from kafkafs.tree.log_sources import LogSources
from kafkafs.tree.rights import Recent, Rights
from kafkafs.tree.shared_text import LastTexts
from storage.log_dir import CLUSTER_METADATA, COMPACTED_BY_BROKERS, SETTINGS_NAME
from storage.store import InternalTopics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkafs.content import SizeCache
    from kafkafs.tree.options import TreeOptions
    from storage.clock import Clock
    from storage.files import Access, Directory
    from storage.store import Store


PARTITIONS_ASKED_MAX: Final = 100_000
"""How many partitions a file about all of them asks: more than a broker has, and half a minute if they are empty."""


class TreeContext:
    """The store of a tree as its nodes see it. Any thread may use it.

    `rights` say who may see what. `sources` has the logs of the partitions, `internal_topics` what the brokers' own
    topics say, `sizes` the sizes of decoded files, `cluster_texts` the texts of `cluster` that were made last.
    """

    def __init__(self, store: Store, options: TreeOptions, *, clock: Clock, sizes: SizeCache) -> None:
        self.store = store
        self.options = options
        self.clock = clock
        self.sizes = sizes
        self.rights = Rights(store.log_dirs, is_shared=options.is_shared)
        self.sources = LogSources(store, options, clock=clock, rights=self.rights)
        self.internal_topics = InternalTopics(store, clock, self.sources.log)
        self.cluster_texts = LastTexts()
        self._access_to_groups = Recent(
            lambda _: self.rights.of_files(
                logs=[each for topic in sorted(COMPACTED_BY_BROKERS) for each in self._directories(topic)]
            )
        )

    def access_to_groups(self, partitions: Iterable[tuple[str, int]] = ()) -> Access:
        """Return the access to what the brokers' own topics say of groups, and to the ends of these logs."""
        access, inventory = self._access_to_groups.get(), self.store.topics.inventory
        ends = [found for each in partitions if (found := inventory.directory(*each)) is not None]
        if not ends:
            return access
        return access._replace(mode=access.mode & self.rights.of_files(logs=ends).mode)

    def access_to_all(self) -> Access:
        """Return the access to what is made from every log of the store."""
        if self.lack_of_time() is not None:
            return self.rights.of_store()  # no log is asked
        return self.rights.of_logs(
            lambda: (each for topic in self.store.topics.inventory.topics for each in self._directories(topic))
        )

    def lack_of_time(self) -> TooManyPartitionsError | None:
        """Return the error that ends a file about every log of the store, if there are too many to ask them."""
        count = sum(map(len, self.store.topics.inventory.topics.values()))
        if count <= PARTITIONS_ASKED_MAX:
            return None
        return TooManyPartitionsError(
            f"the store has {count:,} partitions, and no more than {PARTITIONS_ASKED_MAX:,} are asked together; "
            "ask those of interest one by one"
        )

    def access_to_cluster(self) -> Access:
        """Return the access to what the cluster's metadata log says."""
        return self.rights.of_files(logs=self._directories(CLUSTER_METADATA))

    def access_to_settings(self) -> Access:
        """Return the access to the settings of topics: those that kafkafs keeps, and the cluster's."""
        return self.rights.of_files(self._kept_settings(), logs=self._directories(CLUSTER_METADATA))

    def narrowed_by_settings(self, access: Access) -> Access:
        """Return what is left of an access for a view that tells of settings too."""
        return self.rights.narrowed(access, [self._kept_settings()], self._directories(CLUSTER_METADATA))

    def _kept_settings(self) -> tuple[Directory, str]:
        return self.store.topics.settings_file.directory, SETTINGS_NAME

    def _directories(self, topic: str) -> Iterator[Directory]:
        inventory = self.store.topics.inventory
        found = (inventory.directory(topic, partition) for partition in inventory.topics.get(topic, ()))
        return (each for each in found if each is not None)
