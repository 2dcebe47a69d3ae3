"""`config`: a topic's effective settings, and the way to change them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkafs.tree.errors import NotPermittedError, ReadOnlyTreeError
from kafkafs.tree.generated_file import BytesReading
from kafkafs.tree.line_writing import LineWriting
from kafkafs.tree.node import Attributes, WritableFile
from storage.config import parse_config_lines
from storage.errors import ConfigError
from storage.log_dir import CLUSTER_METADATA, SETTINGS_NAME
from storage.store import Mode

if TYPE_CHECKING:
    from kafkafs.locator.paths import ConfigPath
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.node import Reading


class ConfigFile(WritableFile):
    """Every setting of a topic as `key=value  # origin`, a line each.

    A write changes the settings that it names, as `storage.config.parse_config_lines` says: all that it completes,
    durably when it returns, or none. Other settings stay as they are, so truncating the file first changes nothing.
    """

    def __init__(self, path: ConfigPath, context: TreeContext, topic: str) -> None:
        super().__init__(path)
        self._context = context
        self._store = context.store
        self._topic = topic

    def attributes(self) -> Attributes:
        """Report the last change of any topic's or broker's settings, by kafkafs or the cluster, as the time.

        The size is unknown if the topic's settings are not allowed, and hidden if not all users may read them who can
        reach the file.
        """
        rights, access = self._context.rights, self._context.access_to_settings()
        size_bytes = None
        if not rights.is_reached_by_more(access, rights.of_store()):
            with suppress(ConfigError):
                size_bytes = len(self._text())
        return Attributes(
            size_bytes=size_bytes,
            modified_ms=self._modified_ms(),
            is_writable=self._store.mode is Mode.READ_WRITE and self._topic != CLUSTER_METADATA,
            access=access,
        )

    def open(self) -> Reading:
        """Open the settings of now; raises `ConfigError` if those on disk are not allowed."""
        return BytesReading(self._text())

    def open_writing(self) -> LineWriting:
        """Open it to change settings."""
        if self._store.mode is Mode.READ_ONLY:
            raise ReadOnlyTreeError(f"{self.path}: the store is open for reading only")
        if self._topic == CLUSTER_METADATA:
            raise NotPermittedError(f"{self.path}: only brokers change the cluster's own log")
        return LineWriting(self.path, self._change)

    def _change(self, text: str) -> None:
        try:
            changes = parse_config_lines(text)
            if changes:
                self._store.topics.change_config(self._topic, changes)
        except ConfigError as error:
            error.located(path=str(self.path))
            raise

    def _text(self) -> bytes:
        return "".join(f"{line}\n" for line in self._store.topics.config(self._topic).lines()).encode()

    def _modified_ms(self) -> int:
        topics = self._store.topics
        status = topics.settings_file.directory.status(SETTINGS_NAME)
        changed_ms = max(self._store.cluster.settings_ms(), 0 if status is None else status.modified_ms)
        if changed_ms:
            return changed_ms
        status = topics.directory(self._topic, min(topics.partitions(self._topic))).own_status()
        return 0 if status is None else status.modified_ms
