"""`by-time` of the whole store: where in each partition a time begins, in the lines of kafka-get-offsets.

A line is `topic:partition:offset`, the offset being that of the first record at or after the time. A partition that has
no such record has no line, as with Kafka's own tool; neither has one that is deleted meanwhile. The lines are in the
order of the topics' names and the partitions' numbers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafkafs.locator.paths import PartitionPath, TopicPath
from kafkafs.tree.errors import DamagedError
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.options import Damage
from kafkafs.tree.store_directory import StoreDirectoryNode
from storage.clock import Interval
from storage.errors import StorageError, UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkafs.locator.paths import StoreTimePath
    from kafkafs.tree.context import TreeContext
    from storage.log import LogView

logger = logging.getLogger(__name__)


class StoreTimeDirectory(StoreDirectoryNode):
    """Every time can be opened in it. None is listed, because each takes searching all partitions."""

    def names(self) -> Iterator[str]:
        """Return no names."""
        return iter(())


class StoreTimeFile(GeneratedFile):
    """The offsets for one time, of all partitions. A relative time means another one at each opening.

    If a partition cannot be read, the others' lines are returned, and reading ends with an error; if damage is skipped,
    that partition is left out and counted. Of more partitions than `PARTITIONS_ASKED_MAX` none is asked, and reading is
    refused.
    """

    def __init__(self, path: StoreTimePath, context: TreeContext) -> None:
        super().__init__(path, context.clock, rights=context.rights, access=context.access_to_all)
        self._time = path.time
        self._sources = context.sources
        self._options = context.options
        self._lack_of_time = context.lack_of_time
        self._skipped = 0

    def xattrs(self) -> Mapping[str, bytes]:
        """Report how many partitions were skipped, if damage is skipped."""
        if self._options.damage is Damage.STOP:
            return {}
        self.made()
        return {"user.kafkafs.skipped": b"%d" % self._skipped}

    def generate(self) -> Generated:
        """Ask each partition."""
        now_ms = self._clock.now_ms()
        self._sources.refresh()
        refusal = self._lack_of_time()
        if refusal is not None:
            return Generated(b"", now_ms, refusal)
        timestamp_ms = self._time.resolve(now_ms)
        lines: list[str] = []
        failures: list[str] = []
        report_due = Interval()
        for number, path in enumerate(self._partitions()):
            if report_due.is_over():
                logger.info("%s: %d partitions are asked", self.path, number)
            try:
                offset = self._offset(path, timestamp_ms)
            except UnknownPartitionError:
                continue
            except (StorageError, OSError) as error:
                logger.warning("%s has no line in %s: %s", path, self.path, error)
                failures.append(f"{path}: {error}")
                continue
            if offset is not None:
                lines.append(f"{path.topic.topic}:{path.partition}:{offset}\n")
        self._skipped = len(failures)
        return Generated("".join(lines).encode(), now_ms, self._failure(failures))

    def _partitions(self) -> Iterator[PartitionPath]:
        for topic, partitions in self._sources.store.topics.inventory.topics.items():
            for partition in partitions:
                yield PartitionPath(TopicPath(topic), partition)

    def _offset(self, path: PartitionPath, timestamp_ms: int) -> int | None:
        isolation = self._options.isolation

        def ask(view: LogView) -> int | None:
            found = view.find_timestamp(timestamp_ms)
            return None if found is None or found.offset >= view.bound(isolation) else found.offset

        # The log itself, as the views of a partition would take more time and memory than the answer.
        log = self._sources.log(path.topic.topic, path.partition)
        with log.held():  # by the look and by the question
            return log.on_view(ask)

    def _failure(self, failures: list[str]) -> DamagedError | None:
        if not failures or self._options.damage is Damage.SKIP:
            return None
        return DamagedError(f"{len(failures)} partitions could not be looked into, the first being {failures[0]}")
