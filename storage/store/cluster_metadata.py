"""The metadata log of a store, if it has one, followed by all who ask about the cluster."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from storage.cluster.metadata_log import MetadataLog
from storage.cluster.told_settings import told_settings
from storage.errors import UnknownPartitionError
from storage.store.topic_names import CLUSTER_METADATA

if TYPE_CHECKING:
    from pathlib import Path

    from storage.cluster.told_settings import ToldSettings
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
            with self._finding:
                if self._found is None or self._found[0] != directory:
                    log = self._store.follow_partition(CLUSTER_METADATA, _PARTITION)
                    self._found = directory, MetadataLog(self._store.files, directory, log)
                return self._found[1]
        except UnknownPartitionError:
            return None

    def settings(self, topic: str) -> ToldSettings | None:
        """What the cluster tells of the topic's settings and of this broker's; None if there is no metadata log.

        Raises `OSError` where the log cannot be read, and the damage that ends it early: a later record may have
        changed every setting.
        """
        log = self.log()
        if log is None:
            return None
        told = log.ask(lambda image: told_settings(image, topic, self._node_id))
        if log.damage is not None:
            raise log.damage
        return told

    @property
    def _node_id(self) -> int | None:
        found = (log_dir.properties for log_dir in self._store.log_dirs)
        return next((each.node_id for each in found if each is not None and each.node_id is not None), None)
