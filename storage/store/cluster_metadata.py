"""The metadata log of a store, if it has one, followed by all who ask about the cluster."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from storage.cluster.metadata_log import MetadataLog
from storage.errors import UnknownPartitionError
from storage.partition.followed_log import FollowedLog
from storage.store.topic_names import CLUSTER_METADATA

if TYPE_CHECKING:
    from pathlib import Path

    from storage.store.store import Store

_PARTITION = 0


class ClusterMetadata:
    """Finds the log of a store, also where it has come or moved since. Any thread may ask."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._finding = Lock()
        self._found: tuple[Path, MetadataLog] | None = None

    def log(self) -> MetadataLog | None:
        """The log as it is followed; None for a store without one, such as that of a broker with ZooKeeper."""
        try:
            directory = self._store.topics.directory(CLUSTER_METADATA, _PARTITION)
            log = self._store.log(CLUSTER_METADATA, _PARTITION)
        except UnknownPartitionError:
            return None
        assert isinstance(log, FollowedLog)  # brokers alone change it
        with self._finding:
            if self._found is None or self._found[0] != directory:
                self._found = directory, MetadataLog(self._store.files, directory, log)
            return self._found[1]
