"""Records on their way into a store, written where many may write at once: finished batches in staged files.

Staged records are in no log, and staging keeps no writer out: only the commit takes the store's lock,
which is left to `commits`. Records are checked here as the leader of their partition would check them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.commit.staged_file import STAGED_PREFIX, StagedTopic, StagedWriting
from storage.errors import InvalidTopicError, UnknownPartitionError
from storage.log.appending import place_sent_batch, read_sent_batch
from storage.log.producers.state import AppendOrigin
from storage.log_dir.names import CLUSTER_METADATA, check_new_topic
from storage.record.compression import Codec
from storage.record.encoding import BatchForm, batches_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.log_dir.checkpoints import Partition
    from storage.record.encoding import Row
    from storage.store.store import Store

_NAME_BYTES: Final = 16
_BATCH_OVERHEAD_BYTES: Final = 61
_RECORD_OVERHEAD_BYTES: Final = 16  # seldom more; then what does not fit makes another batch
_HEADER_OVERHEAD_BYTES: Final = 4
_BUFFERED_BYTES_MAX: Final = 64 * 1024 * 1024


class Staged(NamedTuple):
    """A staged file that is whole and on disk, as its committer has to know it."""

    name: str
    size_bytes: int
    records: int


@dataclass(slots=True)
class _Buffered:
    """The records of one partition that are not in a batch yet, and how large that becomes."""

    rows: list[Row] = field(default_factory=list)
    size_bytes: int = _BATCH_OVERHEAD_BYTES


class Staging:
    """One attempt to stage records for a store, which may be open for reading only.

    `new_topics` says whether topics that the store does not have are to be made, with as many partitions as the
    broker's settings say. Batches are compressed as their topic says, and with `codec` where that leaves it to
    producers. In a topic whose timestamps are the append time that is when the records were staged.

    To be used with `with`: what is not finished when that is left is taken away. An attempt whose process dies leaves
    a file that goes when it is old.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        codec: Codec = Codec.NONE,
        new_topics: bool = False,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._store = store
        self._clock = clock
        self._codec = codec
        self._new_topics = new_topics
        self._entropy = entropy
        self._topics: dict[str, StagedTopic] = {}
        self._buffered: dict[Partition, _Buffered] = {}
        self._buffered_bytes = 0
        self._records = 0
        self._writing: StagedWriting | None = None

    def partitions(self, topic: str) -> int:
        """Return the number of partitions that the topic has, or is to be made with.

        Raises `UnknownPartitionError` for one that is not there and not to be made, and `InvalidTopicError` for one
        that cannot be.
        """
        return self._topic(topic).partitions

    def add(self, topic: str, partition: int, row: Row) -> None:
        """Take a record; raises a `StorageError` if the leader of that partition would refuse it, or one before it."""
        config = self._config(topic)
        if not 0 <= partition < self._topic(topic).partitions:
            raise UnknownPartitionError(f"the topic {topic} has no partition {partition}")
        size_bytes = _size_bytes(row)
        buffered = self._buffered.setdefault((topic, partition), _Buffered())
        if buffered.rows and buffered.size_bytes + size_bytes > _batch_bytes_max(config):
            self._write((topic, partition))
            buffered = self._buffered.setdefault((topic, partition), _Buffered())
        buffered.rows.append(row)
        buffered.size_bytes += size_bytes
        self._buffered_bytes += size_bytes
        self._records += 1
        if self._buffered_bytes > _BUFFERED_BYTES_MAX:
            self._write(max(self._buffered, key=lambda each: self._buffered[each].size_bytes))

    def finish(self) -> Staged | None:
        """Sync everything that was added; None if that is nothing."""
        for partition in sorted(self._buffered):
            self._write(partition)
        if self._writing is None:
            return None
        staged = Staged(self._writing.name, self._writing.finish(), self._records)
        self._writing = None
        return staged

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writing is not None:
            with suppress(OSError):  # then its age will take it away
                self._writing.discard()
            self._writing = None

    def _topic(self, topic: str) -> StagedTopic:
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = self._staged_topic(topic)
        return known

    def _staged_topic(self, topic: str) -> StagedTopic:
        if topic == CLUSTER_METADATA:
            raise InvalidTopicError(f"{topic} is the cluster's own log, which is changed by brokers alone")
        topics = self._store.topics
        found: Mapping[int, object] | None = topics.inventory.topics.get(topic)
        if found is not None:
            return StagedTopic(max(found) + 1, topics.topic_id(topic), is_new=False)
        if not self._new_topics:
            raise UnknownPartitionError(f"there is no topic {topic!r}; make it, or allow it to be made")
        check_new_topic(topic, topics.inventory.topics)
        return StagedTopic(self._store.config.num_partitions, None, is_new=True)

    def _config(self, topic: str) -> TopicConfig:
        return self._store.config.topic() if self._topic(topic).is_new else self._store.topics.config(topic)

    def _write(self, partition: Partition) -> None:
        """Write what is buffered of a partition, as one batch unless compression makes it larger than it was."""
        topic = self._topic(partition[0])
        config = self._config(partition[0])
        buffered = self._buffered.pop(partition)
        self._buffered_bytes -= buffered.size_bytes - _BATCH_OVERHEAD_BYTES
        codec = config.compression or self._codec
        form = BatchForm(codec=codec, level=config.compression_level(codec))
        now_ms = self._clock.now_ms()
        for data in batches_of_rows(buffered.rows, base_offset=None, max_bytes=_batch_bytes_max(config), form=form):
            sent = read_sent_batch(data, config, AppendOrigin.CLIENT)
            placed = place_sent_batch(sent, config, next_offset=0, leader_epoch=0, now_ms=now_ms)
            if self._writing is None:
                self._writing = self._begin()
            self._writing.add(partition, topic, placed.buffers, sent.batch.count)

    def _begin(self) -> StagedWriting:
        """A new file, in any of the log directories, so that none has to take all."""
        name = self._entropy(_NAME_BYTES)
        log_dirs = self._store.log_dirs
        log_dir = log_dirs[name[0] % len(log_dirs)]
        return StagedWriting(log_dir.directory, f"{STAGED_PREFIX}{name.hex()}")


def _batch_bytes_max(config: TopicConfig) -> int:
    return min(config.max_message_bytes, config.segment_bytes)


def _size_bytes(row: Row) -> int:
    """Return the bytes that a record takes in a batch, or a few more."""
    _, key, value, headers = row
    size_bytes = _RECORD_OVERHEAD_BYTES + _length(key) + _length(value)
    for name, header_value in headers:
        size_bytes += _HEADER_OVERHEAD_BYTES + len(name) + _length(header_value)
    return size_bytes


def _length(data: object) -> int:
    return 0 if data is None else memoryview(data).nbytes  # type: ignore[arg-type]
