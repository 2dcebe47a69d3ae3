"""A file of finished batches that wait to be committed: batches of many partitions, and an index of them at its end.

A staged file is a plain file at the top of a log directory, where brokers ignore it. It is whole if it ends with its
index, and the index with its length and checksum. Durability, removal, and recovery without it are left to others.
"""

from __future__ import annotations

import errno
import json
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.commit.json_text import list_of, number_of, object_of, parse_json, shown, text_of, truth_of
from storage.errors import FramingError, InvalidIdError, StagingError
from storage.files import SNAPSHOT_BYTES_MAX
from storage.ids import format_id, parse_id
from storage.log_dir.names import is_topic_name
from storage.record.batch import RecordBatch
from storage.record.kernel.crc32c import crc32c
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from typing_extensions import Buffer

    from storage.files import Directory, ReadableFile, WritableFile
    from storage.log_dir.checkpoints import Partition

STAGED_PREFIX: Final = "kafkafs-staged-"

_END: Final = Struct(">II8s")  # the index's length and CRC-32C, and the magic of the end
_MAGIC: Final = b"kafkafs1"
_NAME: Final = re.compile(f"{STAGED_PREFIX}[0-9a-f]+")
_NO_FILE: Final = frozenset({errno.ELOOP, errno.EISDIR, errno.EINVAL, errno.ENXIO})  # something else has its name


class StagedTopic(NamedTuple):
    """A topic as it was when records were staged for it; `topic_id` says whether it is still the same.

    If `is_new`, it did not exist, and the commit makes it with so many partitions.
    """

    partitions: int
    topic_id: UUID | None
    is_new: bool


class Run(NamedTuple):
    """Batches of one partition that lie one after the other."""

    partition: Partition
    position: int
    size_bytes: int
    records: int


class StagedWriting:
    """A staged file that is being written."""

    def __init__(self, directory: Directory, name: str) -> None:
        self.name = name
        self._directory = directory
        self._file: WritableFile = directory.open_writing(name, create=True, exclusive=True)
        self._position = 0
        self._runs: list[Run] = []
        self._topics: dict[str, StagedTopic] = {}

    def add(self, partition: Partition, topic: StagedTopic, buffers: Sequence[Buffer], records: int) -> None:
        """Write one batch of so many records, which begins at offset 0."""
        size_bytes = sum(memoryview(buffer).nbytes for buffer in buffers)
        self._file.write_at(self._position, buffers)
        self._topics.setdefault(partition[0], topic)
        if self._runs and self._runs[-1].partition == partition:
            last = self._runs.pop()
            run = last._replace(size_bytes=last.size_bytes + size_bytes, records=last.records + records)
        else:
            run = Run(partition, self._position, size_bytes, records)
        self._runs.append(run)
        self._position += size_bytes

    def finish(self) -> int:
        """Write the index and return the file's size, once the file and its name are on disk."""
        index = json.dumps(
            {
                "topics": [
                    [
                        name,
                        topic.partitions,
                        None if topic.topic_id is None else format_id(topic.topic_id),
                        topic.is_new,
                    ]
                    for name, topic in self._topics.items()
                ],
                "runs": [[*run.partition, *run[1:]] for run in self._runs],
            },
            separators=(",", ":"),
        ).encode()
        if len(index) > SNAPSHOT_BYTES_MAX:
            raise StagingError(
                f"the index of a staged file would have {len(index)} bytes, and it is read up to {SNAPSHOT_BYTES_MAX}; "
                "stage fewer records in a task",
                path=self._directory.path_of(self.name),
            )
        self._file.write_at(self._position, [index, _END.pack(len(index), crc32c(index), _MAGIC)])
        self._file.sync()
        self._file.close()
        self._directory.sync()
        return self._position + len(index) + _END.size

    def discard(self) -> None:
        """Unlink the file."""
        self._file.close()
        self._directory.remove(self.name)


class StagedFile:
    """A whole staged file; raises `StagingError` if it is not whole."""

    def __init__(self, directory: Directory, name: str) -> None:
        self.path = directory.path_of(name)
        self._directory = directory
        self._name = name
        with self._opened() as file:
            index, end = self._index(file)
        try:
            said = object_of(parse_json(index))
            self.topics = dict(map(_topic, list_of(said.get("topics"))))
            self.runs = [_run(each, end) for each in list_of(said.get("runs"))]
        except (ValueError, InvalidIdError) as error:
            reason = error.reason if isinstance(error, InvalidIdError) else error
            raise StagingError(
                f"the index of a staged file is not what kafkafs writes: {reason}", path=self.path, position=end
            ) from None
        unknown = next((run.partition[0] for run in self.runs if run.partition[0] not in self.topics), None)
        if unknown is not None:
            raise StagingError(f"the index of a staged file does not know the topic {shown(unknown)}", path=self.path)

    def batches(self, partition: Partition) -> Iterator[RecordBatch]:
        """Yield the batches of a partition in their order; raises `StagingError` where they are damaged."""
        with self._opened() as file:
            for run in self.runs:
                if run.partition == partition:
                    yield from self._run(file, run)

    def _run(self, file: ReadableFile, run: Run) -> Iterator[RecordBatch]:
        end = run.position + run.size_bytes
        records = 0
        scan = LogScan(file, start=run.position, end=end)
        with suppress(FramingError):
            for batch in scan:
                if not isinstance(batch, RecordBatch) or not batch.crc_matches:
                    break
                records += batch.count
                yield batch
        if (scan.position, records) != (end, run.records):
            raise StagingError("a staged file is damaged", path=self.path, position=scan.position)

    @contextmanager
    def _opened(self) -> Iterator[ReadableFile]:
        try:
            file = self._directory.open_reading(self._name)
        except FileNotFoundError:
            raise StagingError("a staged file is gone", path=self.path) from None
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            raise StagingError(f"a staged file {error.strerror}", path=self.path) from None
        with file:
            yield file

    def _index(self, file: ReadableFile) -> tuple[bytes, int]:
        """Return the text of the index, and its position, at which the batches end."""
        end = file.size_bytes() - _END.size
        last = file.read_at(max(end, 0), _END.size)
        if len(last) == _END.size:
            length, checksum, magic = _END.unpack(last)
            if magic == _MAGIC and length <= min(end, SNAPSHOT_BYTES_MAX):
                index = file.read_at(end - length, length)
                if crc32c(index) == checksum:
                    return index, end - length
        raise StagingError("a staged file is not whole", path=self.path)


def _topic(said: object) -> tuple[str, StagedTopic]:
    name, partitions, topic_id, is_new = list_of(said, 4)
    if not is_topic_name(text_of(name)):
        raise ValueError(f"{shown(name)} is not the name of a topic")
    known_id = None if topic_id is None else parse_id(text_of(topic_id))
    return name, StagedTopic(number_of(partitions, least=1, bits=32), known_id, truth_of(is_new))


def _run(said: object, end: int) -> Run:
    topic, number, position, size_bytes, records = list_of(said, 5)
    run = Run(
        (text_of(topic), number_of(number, bits=32)), number_of(position), number_of(size_bytes), number_of(records)
    )
    if run.position + run.size_bytes > end:
        raise ValueError(f"batches from {run.position} to {run.position + run.size_bytes} lie after byte {end}")
    return run


def is_staged_name(name: str) -> bool:
    """Return True if a file of this name in a log directory is a staged one."""
    return _NAME.fullmatch(name) is not None


def find_staged(directories: Sequence[Directory], name: str) -> tuple[Directory, str]:
    """Return the directory of a staged file, the first one if it is nowhere, and its name without any path."""
    leaf = Path(name).name
    found = (directory for directory in directories if directory.status(leaf) is not None)
    return next(found, directories[0]), leaf
