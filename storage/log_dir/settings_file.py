"""The file of a store's topic settings: where it is, and what it says now."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from storage.log_dir.topic_settings import SETTINGS_NAME, TopicSettings, read_topic_settings, write_topic_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import Directory

logger = logging.getLogger(__name__)


class SettingsFile:
    """The settings file of some log directories, which may not be there yet.

    It is in the first directory, but one that stands in a later one is taken as it is: somebody may give the
    directories in another order. `current` is what the file says; it is never changed in place. A file of another
    cluster than the store's says nothing, which is logged; the next change of a setting replaces it.
    """

    def __init__(self, directory: Directory, cluster_id: str | None) -> None:
        self.directory = directory
        self._cluster_id = cluster_id
        self._stranger: str | None = None
        self.reload()

    @classmethod
    def find(cls, directories: Sequence[Directory], cluster_id: str | None = None) -> Self:
        """The file of these log directories, the first being the first, which belong to the cluster, if to any.

        Raises `ConfigError` if it cannot be read.
        """
        found = [directory for directory in directories if read_topic_settings(directory) is not None]
        for directory in found[1:]:
            logger.warning("%s is passed over: %s has one too", directory.path_of(SETTINGS_NAME), found[0].path)
        return cls(found[0] if found else directories[0], cluster_id)

    @property
    def stranger(self) -> str | None:
        """Why no setting in the file holds, as it belongs to another cluster; None if it does not."""
        if self._stranger is None:
            return None
        return (
            f"no setting in {self.directory.path_of(SETTINGS_NAME)} holds: it is of the cluster {self._stranger}, "
            f"and the store of {self._cluster_id}; move it to where it belongs"
        )

    def replace(self, settings: TopicSettings) -> None:
        """Have the file say this, durably. After an error it says the one or the other, and `current` knows."""
        written = settings if self._cluster_id is None else replace(settings, cluster_id=self._cluster_id)
        try:
            write_topic_settings(self.directory, written)
        except BaseException:
            self.reload()
            raise
        self.current = written

    def reload(self) -> None:
        """Learn what the file says by now."""
        found = read_topic_settings(self.directory) or TopicSettings()
        stranger = None if self._cluster_id in (None, found.cluster_id) else found.cluster_id
        is_new = stranger is not None and stranger != self._stranger
        self._stranger = stranger
        if is_new:
            logger.warning("%s", self.stranger)
        self.current = found if stranger is None else TopicSettings()
