"""Settings files: kafkafs's own, at the top of a log directory, where brokers ignore it, and a broker's.

Our own is Java's properties text. No topic has a slash in its name, so the first slash of a key separates it:

    /version=1                          what the keys mean
    /cluster.id=MkU3OEVBNTcwNTJENDM2Qk  the cluster that the store belongs to, as meta.properties has it
    /made=true                          kafkafs made the store; `begun` if it was not done with that
    /void/orders-1=FZcR…                this directory, of the topic with this id, is not there (yet, or any more)
    orders/topic.id=FZcR…               the topic that the following is about; not a namesake that came after it
    orders/made=true                    kafkafs made the topic
    orders/retention.ms=3600000         a setting, under its name in Kafka

Everything is kept, also for topics that are not there and under keys that mean nothing here. Values are checked when a
topic's configuration is asked for, so one that is not allowed does no harm to other topics. Comments are lost when the
file is replaced.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from storage.config import StoreConfig
from storage.errors import ConfigError, InvalidIdError
from storage.files import CHECKPOINT_BYTES_MAX, PROPERTIES_BYTES_MAX
from storage.ids import format_id, parse_id
from storage.log_dir.looks import Looks
from storage.properties import format_properties, parse_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from storage.files import Directory, Files

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
        self._readings = Looks()
        self.reload()

    @classmethod
    def find(cls, directories: Sequence[Directory], cluster_id: str | None = None) -> Self:
        """The file of these log directories, the first being the first, which belong to the cluster, if to any.

        Raises `ConfigError` if it cannot be read.
        """
        found = [directory for directory in directories if read_settings_file(directory) is not None]
        for directory in found[1:]:
            logger.warning("%s is passed over: %s has one too", directory.path_of(SETTINGS_NAME), found[0].path)
        return cls(found[0] if found else directories[0], cluster_id)

    @property
    def stranger(self) -> str | None:
        """Return why no setting in the file applies, because it is another cluster's; None if they do."""
        if self._stranger is None:
            return None
        return (
            f"no setting in {self.directory.path_of(SETTINGS_NAME)} holds: it is of the cluster {self._stranger}, "
            f"and the store of {self._cluster_id}; move it to where it belongs"
        )

    def replace(self, settings: SettingsFileContents) -> None:
        """Replace the file, durably. After an error it is the old or the new one, and `current` says which."""
        written = settings if self._cluster_id is None else replace(settings, cluster_id=self._cluster_id)
        try:
            write_settings_file(self.directory, written)
        except BaseException:
            self.reload()
            raise
        self.current = written

    def reload(self) -> None:
        """Learn what the file says by now, if it may say something else."""
        status = self.directory.status(SETTINGS_NAME)
        if not self._readings.may_differ(status):
            return
        self._readings.take(status)
        found = read_settings_file(self.directory) or SettingsFileContents()
        stranger = None if self._cluster_id in (None, found.cluster_id) else found.cluster_id
        is_new = stranger is not None and stranger != self._stranger
        self._stranger = stranger
        if is_new:
            logger.warning("%s", self.stranger)
        self.current = found if stranger is None else SettingsFileContents()


SETTINGS_NAME: Final = "kafkafs-topics.properties"

_VERSION: Final = "1"
_COMMENTS: Final = ("Settings of the topics in these log directories, kept by kafkafs; brokers ignore this file.",)
_VERSION_KEY: Final = "/version"
_CLUSTER_KEY: Final = "/cluster.id"
_MADE_KEY: Final = "/made"
_VOID_KEYS: Final = "/void/"
_TOPIC_ID: Final = "topic.id"
_TOPIC_MADE: Final = "made"
_YES: Final = "true"
_BEGUN: Final = "begun"
_DECIDING_SETTING: Final = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """The record of one topic; `topic_id` is None for a topic of a time without ids."""

    topic_id: UUID | None
    is_made_here: bool = False
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_complete(self) -> bool:
        """True if what is not among the settings is at its default.

        So it is for a topic that kafkafs made. Of another one more may have been said to its broker: then it takes at
        least the cleanup policy, as everything but that is a matter of degree.
        """
        return self.is_made_here or _DECIDING_SETTING in self.settings


@dataclass(frozen=True, slots=True)
class SettingsFileContents:
    """Everything that the file says.

    A store that `is_begun` is being made, or was left so. `void` are directories of partitions that are being made or
    deleted, with their topics' ids: they count as absent, and the next writer that opens the store removes them.
    `cluster_id` is None in a file that an earlier kafkafs wrote, or of a store without one.
    """

    is_made_here: bool = False
    is_begun: bool = False
    topics: Mapping[str, KnownTopic] = field(default_factory=lambda: MappingProxyType({}))
    void: Mapping[str, UUID | None] = field(default_factory=lambda: MappingProxyType({}))
    others: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cluster_id: str | None = None

    def with_topic(self, name: str, topic: KnownTopic) -> Self:
        """Return the same with these settings of a topic."""
        return replace(self, topics=MappingProxyType({**self.topics, name: topic}))

    def without_topic(self, name: str) -> Self:
        """Return the same without a topic."""
        return replace(self, topics=MappingProxyType({key: self.topics[key] for key in self.topics if key != name}))

    def with_void(self, names: Iterable[str], topic_id: UUID | None) -> Self:
        """Return the same, with these directories counting as absent."""
        return replace(self, void=MappingProxyType({**self.void, **dict.fromkeys(names, topic_id)}))

    def without_void(self) -> Self:
        """Return the same, with no directory counting as absent."""
        return replace(self, void=MappingProxyType({}))


def read_settings_file(directory: Directory) -> SettingsFileContents | None:
    """Read the directory's file, None if it is missing. Raises `ConfigError` for a file that kafkafs did not write."""
    path = directory.path_of(SETTINGS_NAME)
    try:
        data = directory.read_small(SETTINGS_NAME, ConfigError, CHECKPOINT_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        return _parsed(parse_properties(data.decode("latin-1")))
    except (ConfigError, InvalidIdError) as error:
        raise ConfigError(error.reason, path=path) from None


def write_settings_file(directory: Directory, settings: SettingsFileContents) -> None:
    """Replace the directory's file, in one step and durably. Raises `ConfigError` if it would be too large to read."""
    data = format_properties(_properties(settings), _COMMENTS).encode("ascii")
    if len(data) > CHECKPOINT_BYTES_MAX:
        raise ConfigError(
            f"the settings of {len(settings.topics)} topics would take {len(data)} bytes, and the file is read "
            f"up to {CHECKPOINT_BYTES_MAX}",
            path=directory.path_of(SETTINGS_NAME),
        )
    directory.replace(SETTINGS_NAME, data)


def _parsed(properties: dict[str, str]) -> SettingsFileContents:
    version = properties.pop(_VERSION_KEY, _VERSION)
    if version != _VERSION:
        raise ConfigError(f"the file's version is {version[:100]!r}, known is {_VERSION}: a newer kafkafs wrote it")
    made = properties.pop(_MADE_KEY, "")
    cluster_id = properties.pop(_CLUSTER_KEY, None)
    void: dict[str, UUID | None] = {}
    others: dict[str, str] = {}
    about: dict[str, dict[str, str]] = {}
    for key, value in properties.items():
        topic, slash, name = key.partition("/")
        if key.startswith(_VOID_KEYS):
            void[key.removeprefix(_VOID_KEYS)] = _id(value)
        elif topic and slash:
            about.setdefault(topic, {})[name] = value
        else:
            others[key] = value
    topics = {
        topic: KnownTopic(
            _id(settings.pop(_TOPIC_ID, "")),
            settings.pop(_TOPIC_MADE, "") == _YES,
            MappingProxyType(settings),
        )
        for topic, settings in about.items()
    }
    return SettingsFileContents(
        is_made_here=made == _YES,
        is_begun=made == _BEGUN,
        topics=MappingProxyType(topics),
        void=MappingProxyType(void),
        others=MappingProxyType(others),
        cluster_id=cluster_id,
    )


def _id(text: str) -> UUID | None:
    return parse_id(text) if text else None


def _properties(settings: SettingsFileContents) -> dict[str, str]:
    properties = {_VERSION_KEY: _VERSION}
    if settings.cluster_id is not None:
        properties[_CLUSTER_KEY] = settings.cluster_id
    if settings.is_made_here or settings.is_begun:
        properties[_MADE_KEY] = _YES if settings.is_made_here else _BEGUN
    properties.update(settings.others)
    for name, topic_id in settings.void.items():
        properties[f"{_VOID_KEYS}{name}"] = "" if topic_id is None else format_id(topic_id)
    for name, topic in sorted(settings.topics.items()):
        if topic.topic_id is not None:
            properties[f"{name}/{_TOPIC_ID}"] = format_id(topic.topic_id)
        if topic.is_made_here:
            properties[f"{name}/{_TOPIC_MADE}"] = _YES
        properties.update({f"{name}/{key}": value for key, value in sorted(topic.settings.items())})
    return properties


def read_server_properties(files: Files, path: Path) -> dict[str, str]:
    """Every setting in the file, those of topics and stores being allowed; raises `ConfigError` and `OSError`."""
    try:
        directory, name = files.parent(path)
        settings = parse_properties(directory.read_small(name, ConfigError, PROPERTIES_BYTES_MAX).decode("latin-1"))
        StoreConfig.resolve(settings)
    except ConfigError as error:
        raise ConfigError(error.reason, path=path) from None
    return settings
