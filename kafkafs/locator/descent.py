"""From the root down, name by name: as a mount looks names up, and a command line's path all at once.

Names of directories have one spelling each, as a directory in a mount may have but one name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.escaping import unescape
from kafkafs.locator.offsets import parse_offset_name
from kafkafs.locator.paths import (
    BY_TIME_NAME,
    CONTROL_NAME,
    ESCAPED_CONTROL_NAME,
    TEXT_SUFFIX,
    ClusterPath,
    ConfigPath,
    ControlPath,
    DamagedRangePath,
    GroupPath,
    OffsetPath,
    PartitionDirectoryPath,
    PartitionFilePath,
    PartitionPath,
    RootPath,
    SegmentPath,
    StoreDirectoryPath,
    StoreFilePath,
    StoreTimePath,
    TimePath,
    TopicPath,
    UnattachedPath,
)
from kafkafs.locator.times import parse_time, parse_time_name
from kafkafs.locator.views import CONTROL_VIEWS, PARTITION_VIEWS, Kind, View
from storage.log_dir import DirectoryState, is_topic_name, parse_directory_name
from storage.segment import parse_name

if TYPE_CHECKING:
    from collections.abc import Container

    from kafkafs.locator.paths import LogPath, TreePath

_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_PARTITION_MAX: Final = 2**31 - 1
_FILE_NAME: Final = re.compile(r"(?!\.\.?\Z)[^/\0]+")
_DAMAGED_RANGE: Final = re.compile(r"([0-9]{20}\.log)@(0|[1-9][0-9]{0,18})")
_FURTHER_LOG_DIR: Final = re.compile(r"[1-9][0-9]{0,5}")

_A_TOPIC: Final = (
    f"a topic: its name has up to 249 ASCII letters, digits, '.', '_' and '-'; {CONTROL_NAME} is no topic's"
)
_IN_A_TOPIC: Final = f"in a topic; there are {View.CONFIG} and the numbers of its partitions"
_IN_A_PARTITION: Final = f"in a partition; there are {', '.join(PARTITION_VIEWS)}"
_IN_THE_CONTROL_DIRECTORY: Final = f"in {CONTROL_NAME}; there are {', '.join(CONTROL_VIEWS)}"
_UNATTACHED: Final = "an unattached directory; their names end in -stray, -future or -delete"
_A_DAMAGED_RANGE: Final = (
    f"a damaged range; their names are those of the log's file and the position, as {View.DAMAGE_LIST} has them: "
    "00000000000000000000.log@4096"
)
_A_FILE_NAME: Final = "the name of a file"


def parse_path(text: str, topics: Container[str] = ()) -> TreePath:
    """The place that a path on the command line means; raises `BadNameError` if it means none.

    The path begins at the root, with or without a slash. Empty names and `.` are passed over, as a shell does; `..` is
    not in the grammar. `%2Ekafkafs` at the root is the topic `.kafkafs`. `topics` are those that exist, of which only
    `by-time` makes a difference.
    """
    path: TreePath = RootPath()
    for name in text.split("/"):
        if name in {"", "."}:
            continue
        if name == ESCAPED_CONTROL_NAME and isinstance(path, RootPath):
            path = TopicPath(CONTROL_NAME)
        else:
            path = child(path, name, topics)
    return path


def child(parent: TreePath, name: str, topics: Container[str] = ()) -> TreePath:
    """Return the path of a name in a directory; raises `BadNameError` if it has none there, or the parent is a file.

    `topics` are those that exist; they matter at the root alone, where one of them may be called `by-time`.
    """
    match parent:
        case PartitionDirectoryPath(log, view):
            return _in_partition_directory(log, view, name)
        case PartitionPath() | UnattachedPath():
            return _in_log(parent, name)
        case TopicPath():
            return _in_topic(parent, name)
        case RootPath():
            return _in_root(name, topics)
        case ControlPath():
            return _in_control_directory(name)
        case StoreDirectoryPath(view):
            return _in_store_directory(view, name)
        case ClusterPath(log_dir, None):
            return ClusterPath(log_dir, _file_name(name))
        case _:
            raise BadNameError(name, f"there: {parent} is a file and has nothing in it")


def _in_root(name: str, topics: Container[str]) -> TreePath:
    if name == CONTROL_NAME:
        return ControlPath()
    if name == BY_TIME_NAME and name not in topics:
        return StoreDirectoryPath(View.STORE_BY_TIME)
    if not is_topic_name(name):
        raise BadNameError(name, _A_TOPIC)
    return TopicPath(name)


def _in_topic(topic: TopicPath, name: str) -> TreePath:
    if name == str(View.CONFIG):
        return ConfigPath(topic)
    if not _PARTITION.fullmatch(name) or int(name) > _PARTITION_MAX:
        raise BadNameError(name, _IN_A_TOPIC)
    return PartitionPath(topic, int(name))


def _in_log(log: LogPath, name: str) -> TreePath:
    view = PARTITION_VIEWS.get(name)
    if view is not None:
        return PartitionDirectoryPath(log, view) if view.kind is Kind.DIRECTORY else PartitionFilePath(log, view)
    raise BadNameError(name, _IN_A_PARTITION)


def _in_partition_directory(log: LogPath, view: View, name: str) -> TreePath:
    if view is View.OFFSET:
        return OffsetPath(log, parse_offset_name(name))
    if view is View.BY_TIME:
        return TimePath(log, parse_time_name(name))
    if view is View.DAMAGE:
        return _damaged_range(log, name)
    # No file of Kafka's ends so; one that does is hidden by the twin of another.
    file = _file_name(name).removesuffix(TEXT_SUFFIX)
    if file != name and _FILE_NAME.fullmatch(file):
        return SegmentPath(log, file, is_text=True)
    return SegmentPath(log, name)


def _damaged_range(log: LogPath, name: str) -> DamagedRangePath:
    named = _DAMAGED_RANGE.fullmatch(name)
    file = None if named is None else parse_name(named[1])
    if named is None or file is None:
        raise BadNameError(name, _A_DAMAGED_RANGE)
    return DamagedRangePath(log, file.offset, int(named[2]))


def _in_control_directory(name: str) -> TreePath:
    view = CONTROL_VIEWS.get(name)
    if view is not None:
        return StoreDirectoryPath(view) if view.kind is Kind.DIRECTORY else StoreFilePath(view)
    raise BadNameError(name, _IN_THE_CONTROL_DIRECTORY)


def _in_store_directory(view: View, name: str) -> TreePath:
    if view is View.STORE_BY_TIME:
        return StoreTimePath(parse_time(name))
    if view is View.CLUSTER:
        return ClusterPath(int(name), None) if _FURTHER_LOG_DIR.fullmatch(name) else ClusterPath(None, _file_name(name))
    if view is View.GROUPS:
        unescape(name)
        return GroupPath(name)
    parsed = parse_directory_name(_file_name(name))
    if parsed is None or parsed.state is DirectoryState.CURRENT:
        raise BadNameError(name, _UNATTACHED)
    return UnattachedPath(parsed)


def _file_name(name: str) -> str:
    if not _FILE_NAME.fullmatch(name):
        raise BadNameError(name, _A_FILE_NAME)
    return name
