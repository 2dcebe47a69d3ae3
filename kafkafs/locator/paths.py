"""The places of the tree, as frozen values.

`str` of a place is its path from the root, `view` the row of the table of views that says what it is. There are no
others than these; whether one is there in a store is not said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from kafkafs.locator.offsets import RecordRange
from kafkafs.locator.times import TimeRange
from kafkafs.locator.views import View
from storage.segment import FileName, Kind

if TYPE_CHECKING:
    from typing import TypeAlias

    from kafkafs.locator.offsets import OffsetName
    from kafkafs.locator.times import Time, TimeName
    from storage.log_dir import DirectoryName

CONTROL_NAME: Final = str(View.CONTROL)
"""The directory at the root for what is no topic's; no topic ever wins this name."""
ESCAPED_CONTROL_NAME: Final = "%2Ekafkafs"
"""A topic called `.kafkafs`, on the command line. No topic has a `%` in its name, so it is no other's."""
BY_TIME_NAME: Final = str(View.STORE_BY_TIME_AT_ROOT)
TEXT_SUFFIX: Final = ".txt"


@dataclass(frozen=True, slots=True)
class RootPath:
    """The root."""

    view: ClassVar[View] = View.ROOT

    def __str__(self) -> str:
        return "/"


@dataclass(frozen=True, slots=True)
class TopicPath:
    """A topic's directory."""

    view: ClassVar[View] = View.TOPIC
    topic: str

    def __str__(self) -> str:
        return f"/{ESCAPED_CONTROL_NAME if self.topic == CONTROL_NAME else self.topic}"


@dataclass(frozen=True, slots=True)
class ConfigPath:
    """A topic's settings."""

    view: ClassVar[View] = View.CONFIG
    topic: TopicPath

    def __str__(self) -> str:
        return f"{self.topic}/{self.view}"


@dataclass(frozen=True, slots=True)
class PartitionPath:
    """The directory of a topic's partition."""

    view: ClassVar[View] = View.PARTITION
    topic: TopicPath
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True)
class UnattachedPath:
    """The views of a partition directory that is no topic's partition: one that is stray, future or being deleted."""

    view: ClassVar[View] = View.UNATTACHED_LOG
    directory: DirectoryName

    def __str__(self) -> str:
        return f"{StoreDirectoryPath(View.UNATTACHED)}/{self.directory}"


LogPath: TypeAlias = "PartitionPath | UnattachedPath"
"""The directories with a log, which have the same views."""


@dataclass(frozen=True, slots=True)
class PartitionDirectoryPath:
    """A directory of views of a log."""

    log: LogPath
    view: View

    def __str__(self) -> str:
        return f"{self.log}/{self.view}"


@dataclass(frozen=True, slots=True)
class PartitionFilePath:
    """A view of a whole log, or a way to write to it."""

    log: LogPath
    view: View

    def __str__(self) -> str:
        return f"{self.log}/{self.view}"


@dataclass(frozen=True, slots=True)
class OffsetPath:
    """Records by their offsets."""

    log: LogPath
    name: OffsetName

    @property
    def view(self) -> View:
        """Tell a record from a range of records."""
        return View.RECORD_RANGE if isinstance(self.name.records, RecordRange) else View.RECORD

    def __str__(self) -> str:
        return f"{self.log}/{View.OFFSET}/{self.name}"


@dataclass(frozen=True, slots=True)
class TimePath:
    """Records by their times."""

    log: LogPath
    name: TimeName

    @property
    def view(self) -> View:
        """Tell a time from a range of times."""
        return View.TIME_RANGE if isinstance(self.name.times, TimeRange) else View.TIME

    def __str__(self) -> str:
        return f"{self.log}/{View.BY_TIME}/{self.name}"


@dataclass(frozen=True, slots=True)
class SegmentPath:
    """A real file in the log's directory, or its decoded twin."""

    log: LogPath
    file: str
    is_text: bool = False

    @property
    def view(self) -> View:
        """Tell a file from its twin."""
        return View.SEGMENT_TEXT if self.is_text else View.SEGMENT

    def __str__(self) -> str:
        return f"{self.log}/{View.SEGMENTS}/{self.file}{TEXT_SUFFIX if self.is_text else ''}"


@dataclass(frozen=True, slots=True)
class DamagedRangePath:
    """A range of bytes that does not decode, by the segment that has it and the position of its first byte."""

    view: ClassVar[View] = View.DAMAGED_RANGE
    log: LogPath
    base_offset: int
    position: int

    @property
    def name(self) -> str:
        """Return its name in the directory."""
        return f"{FileName(self.base_offset, Kind.LOG)}@{self.position}"

    def __str__(self) -> str:
        return f"{self.log}/{View.DAMAGE}/{self.name}"


@dataclass(frozen=True, slots=True)
class ControlPath:
    """The directory `.kafkafs`."""

    view: ClassVar[View] = View.CONTROL

    def __str__(self) -> str:
        return f"/{CONTROL_NAME}"


@dataclass(frozen=True, slots=True)
class StoreDirectoryPath:
    """A directory in `.kafkafs`. The root's `by-time` is the same as the one there, and has its path."""

    view: View

    def __str__(self) -> str:
        return f"/{CONTROL_NAME}/{self.view}"


@dataclass(frozen=True, slots=True)
class StoreFilePath:
    """A file in `.kafkafs`."""

    view: View

    def __str__(self) -> str:
        return f"/{CONTROL_NAME}/{self.view}"


@dataclass(frozen=True, slots=True)
class StoreTimePath:
    """The first offsets at or after a time, of all partitions."""

    view: ClassVar[View] = View.STORE_TIME
    time: Time

    def __str__(self) -> str:
        return f"{StoreDirectoryPath(View.STORE_BY_TIME)}/{self.time}"


@dataclass(frozen=True, slots=True)
class GroupPath:
    """A consumer group's file. `name` is the escaped id, or where that is too long, its hash."""

    view: ClassVar[View] = View.GROUP
    name: str

    def __str__(self) -> str:
        return f"{StoreDirectoryPath(View.GROUPS)}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClusterPath:
    """A file in `cluster`, or with a number alone the directory of a further log directory; with both a file in that.

    Which files there are depends on the cluster.
    """

    log_dir: int | None
    file: str | None

    def __post_init__(self) -> None:
        assert self.log_dir is not None or self.file is not None

    @property
    def view(self) -> View:
        """Tell a directory from a file."""
        if self.file is None:
            return View.CLUSTER_LOG_DIR
        return View.CLUSTER_FILE if self.log_dir is None else View.CLUSTER_LOG_DIR_FILE

    def __str__(self) -> str:
        names = (self.log_dir, self.file)
        return "/".join([str(StoreDirectoryPath(View.CLUSTER)), *(str(name) for name in names if name is not None)])


TreePath: TypeAlias = (
    "RootPath | TopicPath | ConfigPath | LogPath | PartitionDirectoryPath | PartitionFilePath | OffsetPath | TimePath"
    " | SegmentPath | DamagedRangePath | ControlPath | StoreDirectoryPath | StoreFilePath | StoreTimePath | GroupPath"
    " | ClusterPath"
)
