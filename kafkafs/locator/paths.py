"""The places of the tree, as frozen values.

`str` of a place is its path from the root. There are no others than these; whether one is there in a store, and what it
is like, is not said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TypeAlias

    from kafkafs.locator.offsets import OffsetName
    from kafkafs.locator.times import Time, TimeName
    from storage.log_dir import DirectoryName

CONTROL_NAME: Final = ".kafkafs"
"""The directory at the root for what is no topic's; no topic ever wins this name."""
ESCAPED_CONTROL_NAME: Final = "%2Ekafkafs"
"""A topic called `.kafkafs`, on the command line. No topic has a `%` in its name, so it is no other's."""
BY_TIME_NAME: Final = "by-time"
CONFIG_NAME: Final = "config"
TEXT_SUFFIX: Final = ".txt"


class PartitionDirectory(StrEnum):
    """The directories of a partition."""

    OFFSET = "offset"
    BY_TIME = BY_TIME_NAME
    SEGMENTS = "segments"


class PartitionFile(StrEnum):
    """The files of a partition."""

    APPEND = "append"
    APPEND_JSONL = "append.jsonl"
    APPEND_KV = "append.kv"
    APPEND_RAW = "append.raw"
    APPEND_BATCH = "append.batch"
    VALUES = "values"
    RECORDS = "records.jsonl"
    INFO = "info"
    LOG_START_OFFSET = "log-start-offset"
    TRANSACTIONS = "transactions"
    PRODUCERS = "producers"
    LEADER_EPOCHS = "leader-epochs"
    RETENTION_PLAN = "retention.plan"
    COMPACTION_PLAN = "compaction.plan"
    DAMAGE = "damage.jsonl"


class StoreDirectory(StrEnum):
    """The directories of `.kafkafs`."""

    BY_TIME = BY_TIME_NAME  # at the root as well, unless a topic is called so
    UNATTACHED = "unattached"
    GROUPS = "groups"
    CLUSTER = "cluster"


class StoreFile(StrEnum):
    """The files of `.kafkafs`."""

    README = "README"
    VERSION = "version"
    OPTIONS = "options"
    METRICS = "metrics"
    LOG = "log"
    TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True)
class RootPath:
    """The root."""

    def __str__(self) -> str:
        return "/"


@dataclass(frozen=True, slots=True)
class TopicPath:
    """A topic's directory."""

    topic: str

    def __str__(self) -> str:
        return f"/{ESCAPED_CONTROL_NAME if self.topic == CONTROL_NAME else self.topic}"


@dataclass(frozen=True, slots=True)
class ConfigPath:
    """A topic's settings."""

    topic: TopicPath

    def __str__(self) -> str:
        return f"{self.topic}/{CONFIG_NAME}"


@dataclass(frozen=True, slots=True)
class PartitionPath:
    """The directory of a topic's partition."""

    topic: TopicPath
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class UnattachedPath:
    """The views of a partition directory that is no topic's partition: one that is stray, future or being deleted."""

    directory: DirectoryName

    def __str__(self) -> str:
        return f"{StoreDirectoryPath(StoreDirectory.UNATTACHED)}/{self.directory}"


LogPath: TypeAlias = "PartitionPath | UnattachedPath"
"""The directories with a log, which have the same views."""


@dataclass(frozen=True, slots=True)
class PartitionDirectoryPath:
    """A directory of views of a log."""

    log: LogPath
    directory: PartitionDirectory

    def __str__(self) -> str:
        return f"{self.log}/{self.directory}"


@dataclass(frozen=True, slots=True)
class PartitionFilePath:
    """A view of a whole log, or a way to write to it."""

    log: LogPath
    file: PartitionFile

    def __str__(self) -> str:
        return f"{self.log}/{self.file}"


@dataclass(frozen=True, slots=True)
class OffsetPath:
    """Records by their offsets."""

    log: LogPath
    name: OffsetName

    def __str__(self) -> str:
        return f"{self.log}/{PartitionDirectory.OFFSET}/{self.name}"


@dataclass(frozen=True, slots=True)
class TimePath:
    """Records by their times."""

    log: LogPath
    name: TimeName

    def __str__(self) -> str:
        return f"{self.log}/{PartitionDirectory.BY_TIME}/{self.name}"


@dataclass(frozen=True, slots=True)
class SegmentPath:
    """A real file in the log's directory, or its decoded twin."""

    log: LogPath
    file: str
    is_text: bool = False

    def __str__(self) -> str:
        return f"{self.log}/{PartitionDirectory.SEGMENTS}/{self.file}{TEXT_SUFFIX if self.is_text else ''}"


@dataclass(frozen=True, slots=True)
class ControlPath:
    """The directory `.kafkafs`."""

    def __str__(self) -> str:
        return f"/{CONTROL_NAME}"


@dataclass(frozen=True, slots=True)
class StoreDirectoryPath:
    """A directory in `.kafkafs`. The root's `by-time` is the same as the one there, and has its path."""

    directory: StoreDirectory

    def __str__(self) -> str:
        return f"/{CONTROL_NAME}/{self.directory}"


@dataclass(frozen=True, slots=True)
class StoreFilePath:
    """A file in `.kafkafs`."""

    file: StoreFile

    def __str__(self) -> str:
        return f"/{CONTROL_NAME}/{self.file}"


@dataclass(frozen=True, slots=True)
class StoreTimePath:
    """The first offsets at or after a time, of all partitions."""

    time: Time

    def __str__(self) -> str:
        return f"{StoreDirectoryPath(StoreDirectory.BY_TIME)}/{self.time}"


@dataclass(frozen=True, slots=True)
class GroupPath:
    """A consumer group's file. `name` is the escaped id, or where that is too long, its hash."""

    name: str

    def __str__(self) -> str:
        return f"{StoreDirectoryPath(StoreDirectory.GROUPS)}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClusterPath:
    """A file or directory in `cluster`, however deep: its names depend on what the cluster has."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join([str(StoreDirectoryPath(StoreDirectory.CLUSTER)), *self.names])


TreePath: TypeAlias = (
    "RootPath | TopicPath | ConfigPath | LogPath | PartitionDirectoryPath | PartitionFilePath | OffsetPath | TimePath"
    " | SegmentPath | ControlPath | StoreDirectoryPath | StoreFilePath | StoreTimePath | GroupPath | ClusterPath"
)
