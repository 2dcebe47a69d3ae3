"""The file of a store's topic settings: where it is, and what it says now."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from storage.store.topic_settings import SETTINGS_NAME, TopicSettings, read_topic_settings, write_topic_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage.files import Files

logger = logging.getLogger(__name__)


class SettingsFile:
    """The settings file of some log directories, which may not be there yet.

    It is in the first directory, but one that stands in a later one is taken as it is: somebody may give the
    directories in another order. `current` is what the file says; it is never changed in place.
    """

    def __init__(self, files: Files, directory: Path, current: TopicSettings) -> None:
        self.directory = directory
        self.current = current
        self._files = files

    @classmethod
    def find(cls, files: Files, directories: Sequence[Path]) -> Self:
        """The file of these log directories, the first being the first. Raises `ConfigError` if it cannot be read."""
        found = [
            (directory, settings)
            for directory in directories
            if (settings := read_topic_settings(files, directory)) is not None
        ]
        for directory, _ in found[1:]:
            logger.warning("%s is passed over: %s has one too", directory / SETTINGS_NAME, found[0][0])
        directory, current = found[0] if found else (directories[0], TopicSettings())
        return cls(files, directory, current)

    def replace(self, settings: TopicSettings) -> None:
        """Have the file say this, durably. After an `OSError` it says the one or the other, and `current` knows."""
        try:
            write_topic_settings(self._files, self.directory, settings)
        except OSError:
            self.reload()
            raise
        self.current = settings

    def reload(self) -> None:
        """Learn what the file says by now."""
        self.current = read_topic_settings(self._files, self.directory) or TopicSettings()
