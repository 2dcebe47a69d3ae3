"""The metadata log of a store, if it has one, followed by all who ask about the cluster."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from storage.cluster.metadata_log import SETTING_RECORDS, MetadataLog, told_settings
from storage.errors import CorruptMetadataError, StorageError, UnknownPartitionError
from storage.log_dir.meta_properties import KRAFT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from storage.cluster.metadata_log import ToldSettings
    from storage.files import Directory
    from storage.log.readable_log import ReadableLog
    from storage.log_dir.log_dir import LogDir


class ClusterMetadata:
    """The metadata log, found again after it has come or moved. Any thread may ask.

    `find` gives its directory or raises `UnknownPartitionError`, and `follow` the log in it.
    """

    def __init__(
        self,
        log_dirs: Sequence[LogDir],
        *,
        find: Callable[[], Directory],
        follow: Callable[[], ReadableLog],
        is_made_here: Callable[[], bool],
    ) -> None:
        self._log_dirs = log_dirs
        self._find = find
        self._follow = follow
        self._is_made_here = is_made_here
        self._finding = Lock()
        self._found: tuple[Directory, MetadataLog] | None = None

    def log(self) -> MetadataLog | None:
        """The log as it is followed; None for a store without one, such as that of a broker with ZooKeeper."""
        try:
            directory = self._find()
            with self._finding:
                if self._found is None or self._found[0] != directory:
                    self._found = directory, MetadataLog(directory, self._follow())
                return self._found[1]
        except UnknownPartitionError:
            return None

    def settings(self, topic: str) -> ToldSettings | None:
        """Return what the cluster tells of the topic's settings and of this broker's, None without a metadata log.

        Raises `OSError` where the log cannot be read, the damage that ends it early, as a later record may have changed
        every setting, and `CorruptMetadataError` where it has settings of a version that is not known here.
        """
        log = self.log()
        if log is None:
            return None
        told, why_unknown = log.ask(
            lambda image: (told_settings(image, topic, self.node_id), image.why_unknown(*SETTING_RECORDS))
        )
        if log.damage is not None:
            raise log.damage
        if why_unknown:
            raise CorruptMetadataError(why_unknown)
        return told

    def settings_ms(self) -> int:
        """When the cluster last changed a setting of some topic or broker; 0 where that is not known."""
        try:
            log = self.log()
            return 0 if log is None else log.ask(lambda image: image.settings_ms)
        except (StorageError, OSError):
            return 0

    @property
    def why_none(self) -> str:
        """Say where the settings of a broker's topics are if there is no metadata log here."""
        versions = {each.properties.version for each in self._log_dirs if each.properties is not None}
        if self._is_made_here() or not versions:
            return "there is no metadata log in these log directories"
        if KRAFT_VERSION in versions:
            return "the metadata log is not here: give its log directory too, metadata.log.dir or the first of log.dirs"
        return "the cluster has it in ZooKeeper"

    @property
    def node_id(self) -> int | None:
        """The id of the broker that the store is of, if it has one."""
        found = (log_dir.properties for log_dir in self._log_dirs)
        return next((each.node_id for each in found if each is not None and each.node_id is not None), None)
