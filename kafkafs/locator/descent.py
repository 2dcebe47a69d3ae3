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
    CONFIG_NAME,
    CONTROL_NAME,
    ESCAPED_CONTROL_NAME,
    TEXT_SUFFIX,
    ClusterPath,
    ConfigPath,
    ControlPath,
    GroupPath,
    OffsetPath,
    PartitionDirectory,
    PartitionDirectoryPath,
    PartitionFile,
    PartitionFilePath,
    PartitionPath,
    RootPath,
    SegmentPath,
    StoreDirectory,
    StoreDirectoryPath,
    StoreFile,
    StoreFilePath,
    StoreTimePath,
    TimePath,
    TopicPath,
    UnattachedPath,
)
from kafkafs.locator.times import parse_time, parse_time_name
from storage.log_dir import DirectoryState, is_topic_name, parse_directory_name

if TYPE_CHECKING:
    from collections.abc import Container

    from kafkafs.locator.paths import LogPath, TreePath

_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_PARTITION_MAX: Final = 2**31 - 1
_FILE_NAME: Final = re.compile(r"(?!\.\.?\Z)[^/\0]+")

_PARTITION_DIRECTORIES: Final = {str(directory): directory for directory in PartitionDirectory}
_PARTITION_FILES: Final = {str(file): file for file in PartitionFile}
_STORE_DIRECTORIES: Final = {str(directory): directory for directory in StoreDirectory}
_STORE_FILES: Final = {str(file): file for file in StoreFile}

_A_TOPIC: Final = (
    f"a topic: its name has up to 249 ASCII letters, digits, '.', '_' and '-'; {CONTROL_NAME} is no topic's"
)
_IN_A_TOPIC: Final = f"in a topic; there are {CONFIG_NAME} and the numbers of its partitions"
_IN_A_PARTITION: Final = f"in a partition; there are {', '.join([*_PARTITION_DIRECTORIES, *_PARTITION_FILES])}"
_IN_THE_CONTROL_DIRECTORY: Final = f"in {CONTROL_NAME}; there are {', '.join([*_STORE_DIRECTORIES, *_STORE_FILES])}"
_UNATTACHED: Final = "an unattached directory; their names end in -stray, -future or -delete"
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
        case PartitionDirectoryPath(log, directory):
            return _in_partition_directory(log, directory, name)
        case PartitionPath() | UnattachedPath():
            return _in_log(parent, name)
        case TopicPath():
            return _in_topic(parent, name)
        case RootPath():
            return _in_root(name, topics)
        case ControlPath():
            return _in_control_directory(name)
        case StoreDirectoryPath(directory):
            return _in_store_directory(directory, name)
        case ClusterPath(names):
            return ClusterPath((*names, _file_name(name)))
        case _:
            raise BadNameError(name, f"there: {parent} is a file and has nothing in it")


def _in_root(name: str, topics: Container[str]) -> TreePath:
    if name == CONTROL_NAME:
        return ControlPath()
    if name == BY_TIME_NAME and name not in topics:
        return StoreDirectoryPath(StoreDirectory.BY_TIME)
    if not is_topic_name(name):
        raise BadNameError(name, _A_TOPIC)
    return TopicPath(name)


def _in_topic(topic: TopicPath, name: str) -> TreePath:
    if name == CONFIG_NAME:
        return ConfigPath(topic)
    if not _PARTITION.fullmatch(name) or int(name) > _PARTITION_MAX:
        raise BadNameError(name, _IN_A_TOPIC)
    return PartitionPath(topic, int(name))


def _in_log(log: LogPath, name: str) -> TreePath:
    if (directory := _PARTITION_DIRECTORIES.get(name)) is not None:
        return PartitionDirectoryPath(log, directory)
    if (file := _PARTITION_FILES.get(name)) is not None:
        return PartitionFilePath(log, file)
    raise BadNameError(name, _IN_A_PARTITION)


def _in_partition_directory(log: LogPath, directory: PartitionDirectory, name: str) -> TreePath:
    if directory is PartitionDirectory.OFFSET:
        return OffsetPath(log, parse_offset_name(name))
    if directory is PartitionDirectory.BY_TIME:
        return TimePath(log, parse_time_name(name))
    # No file of Kafka's ends so; one that does is hidden by the twin of another.
    file = _file_name(name).removesuffix(TEXT_SUFFIX)
    if file != name and _FILE_NAME.fullmatch(file):
        return SegmentPath(log, file, is_text=True)
    return SegmentPath(log, name)


def _in_control_directory(name: str) -> TreePath:
    if (directory := _STORE_DIRECTORIES.get(name)) is not None:
        return StoreDirectoryPath(directory)
    if (file := _STORE_FILES.get(name)) is not None:
        return StoreFilePath(file)
    raise BadNameError(name, _IN_THE_CONTROL_DIRECTORY)


def _in_store_directory(directory: StoreDirectory, name: str) -> TreePath:
    if directory is StoreDirectory.BY_TIME:
        return StoreTimePath(parse_time(name))
    if directory is StoreDirectory.CLUSTER:
        return ClusterPath((_file_name(name),))
    if directory is StoreDirectory.GROUPS:
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
