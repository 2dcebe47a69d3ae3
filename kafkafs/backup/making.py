"""The making of a run in its directory: each partition taken until it stood still, and what came or went meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.backup.errors import ChangedError, UnreadableSourceError
from kafkafs.backup.groups import commits_beyond
from kafkafs.backup.partition_copy import PartitionCopy
from kafkafs.backup.partition_plan import earlier_copy, is_watermark_known, plan_partition
from kafkafs.backup.places import limited
from kafkafs.backup.top_files import RunOffsets, read_ledger, top_files, write_top_files
from storage.errors import UnknownPartitionError, in_words
from storage.log_dir import BROKERS_OWN, CLUSTER_METADATA, Doomed, OffsetCheckpoint
from storage.offset_text import offsets_text
from storage.segment import Kind, live_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kafkafs.backup.groups import CommitBeyond
    from kafkafs.backup.manifest import Manifest, ManifestWriter
    from kafkafs.backup.manifest_lines import RunPartition
    from storage.clock import Clock
    from storage.files import Directory
    from storage.log_dir import Partition
    from storage.store import Store

ATTEMPTS_MAX: Final = 10
"""How often a partition is taken that changes under the run, before it is given up."""

_PASSES_MAX: Final = 3
_REFRESHED_S: Final = 1.0


class TakenPartition(NamedTuple):
    """A partition of a run, the bytes that were copied and linked for it, and how often it was taken."""

    partition: RunPartition
    copied_bytes: int
    linked_bytes: int
    attempts: int


@dataclass(slots=True)
class RunReport:
    """The outcome of a run.

    `changes` say what changed in the store while it was copied, `damage` what is damaged in it and was copied as it is,
    and `failures` what could not be copied: with any of those the run is not the latest complete one. `beyond` are the
    committed offsets that lie above the end of a copy. `above` has the partitions that end above their high watermark,
    with how many of their offsets were left out for it.
    """

    name: str
    path: Path
    partitions: int = 0
    copied_bytes: int = 0
    linked_bytes: int = 0
    changes: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    beyond: list[CommitBeyond] = field(default_factory=list)
    above: dict[Partition, int] = field(default_factory=dict)


def unreadable(partition: Partition, error: UnreadableSourceError) -> str:
    """Return the sentence about a partition that is left out."""
    return f"{name_of(partition)} cannot be read: {in_words(error)}"


class RunMaking:
    """The making of one run in its directory."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        directory: Directory,
        earlier: Sequence[Manifest],
        writer: ManifestWriter,
        report: RunReport,
        *,
        bits: int,
        to_end: bool,
    ) -> None:
        self._clock = clock
        self._store = store
        self._directory = directory
        self._earlier = earlier
        self._writer = writer
        self._report = report
        self._to_end = to_end
        self._run_bits = self._bits = bits  # what its directory grants, and what is made in it from now on
        self._offsets = RunOffsets()
        self._topic_ids: dict[Partition, str | None] = {}  # of every partition that was taken, or could not be
        self._ledger = read_ledger(store)
        self._refreshed_s = clock.elapsed_s()

    def take_all(self, announce: Callable[[str, int, int], None], tell: Callable[[TakenPartition], None]) -> None:
        """Take every partition that is there, and those that come meanwhile.

        `announce` is called before each with its name, its number and their count, and `tell` after it.
        """
        for number in range(_PASSES_MAX):
            missing = in_order(self._store.topics.inventory.partitions() - self._topic_ids.keys())
            missing = [each for each in missing if number == 0 or each[0] != CLUSTER_METADATA]
            if not missing:
                break
            for at, partition in enumerate(missing, 1):
                announce(name_of(partition), at, len(missing))
                taken = self._take(partition)
                if taken is not None:
                    tell(taken)
            self._refresh(at_once=True)
        self._leave_gone()

    def _take(self, partition: Partition) -> TakenPartition | None:
        """Take a partition, again where it changed; one that is gone or cannot be read is not in the run."""
        self._topic_ids[partition] = None
        copy = PartitionCopy(self._directory, name_of(partition), self._run_bits, self._clock)
        reason = ""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            self._refresh(at_once=attempt > 1)
            try:
                taken = self._attempt(partition, copy)
            except ChangedError as error:
                reason = str(error)
                continue
            except UnknownPartitionError as error:
                reason = error.reason
                self._refresh(at_once=True)
                if self._store.topics.inventory.log_dir(*partition) is None:
                    break
                continue
            except UnreadableSourceError as error:
                self._report.failures.append(unreadable(partition, error))
                self._remove(partition)
                return None
            return self._keep(taken, copy, attempt, reason)
        if self._store.topics.inventory.log_dir(*partition) is None:
            self._report.changes.append(f"{name_of(partition)} was deleted while it was copied, and is not in the run")
        else:
            self._report.failures.append(
                f"{name_of(partition)} changed {ATTEMPTS_MAX} times while it was copied, the last time because {reason}"
            )
        self._remove(partition)
        return None

    def _attempt(self, partition: Partition, copy: PartitionCopy) -> RunPartition:
        topics = self._store.topics
        plan = plan_partition(self._store, partition, self._earlier, self._clock.now_ms(), to_end=self._to_end)
        return copy.take(plan, topics.config(partition[0]), topics.store_config(partition[0]))

    def _refresh(self, *, at_once: bool = False) -> None:
        """See what is in the store by now, at most once a second unless asked to."""
        now_s = self._clock.elapsed_s()
        if at_once or now_s - self._refreshed_s >= _REFRESHED_S:
            self._store.refresh()
            self._refreshed_s = now_s

    def _keep(self, taken: RunPartition, copy: PartitionCopy, attempts: int, reason: str) -> TakenPartition:
        partition = (taken.topic, taken.partition)
        self._topic_ids[partition] = taken.topic_id
        self._offsets.add(taken, min(live_offsets((file.name for file in taken.files), Kind.LOG), default=None))
        self._narrow(copy.bits)
        self._writer.add(taken)
        report = self._report
        report.partitions += 1
        report.copied_bytes += copy.copied_bytes
        report.linked_bytes += copy.linked_bytes
        if taken.above_high_watermark:
            report.above[partition] = taken.above_high_watermark
        if attempts > 1:
            report.changes.append(f"{name_of(partition)} was copied {attempts} times, as {reason}")
        report.damage += [f"{name_of(partition)}/{each}" for each in taken.damage]
        return TakenPartition(taken, copy.copied_bytes, copy.linked_bytes, attempts)

    def _narrow(self, bits: int) -> None:
        """Let the small files grant no more than the copy of a partition that they are about to tell of."""
        if self._bits & ~bits:
            self._bits &= bits
            self._directory = limited(self._directory, self._bits)
            self._writer.narrow(self._directory)

    def _leave_gone(self) -> None:
        """Leave out partitions that were deleted since they were taken, so that no topic is there in part."""
        there = self._store.topics.inventory.partitions()
        for partition in sorted(self._offsets.ends.keys() - there):
            self._report.changes.append(f"{name_of(partition)} was deleted after it was copied, and is not in the run")
            self._remove(partition)

    def _remove(self, partition: Partition) -> None:
        self._offsets.remove(partition)
        self._report.above.pop(partition, None)
        if self._directory.at(name_of(partition)).exists():
            Doomed(self._directory, name_of(partition)).remove()

    def _gone_since(self) -> Iterator[str]:
        """Yield what the complete run before has and the store lost: a topic was deleted, or a disk is missing."""
        for manifest in self._earlier:
            if manifest.tail is not None:
                for name in sorted(manifest.names() - {name_of(each) for each in self._topic_ids}):
                    yield f"{name} is in the run before, and is not in the store any more"

    def _ended_before(self) -> Iterator[str]:
        """Yield what ends below where the complete run before has it: the store is an older disk, or lost records."""
        for manifest in self._earlier:
            for partition, end_offset in sorted(self._offsets.ends.items()) if manifest.tail is not None else ():
                _, before = earlier_copy([manifest], partition)
                if before is not None and end_offset < before.end_offset:
                    lost = offsets_text(max(end_offset, before.start_offset), before.end_offset)
                    yield f"{name_of(partition)} ends at offset {end_offset}, and the run before has {lost} of it too"

    def finish(self) -> None:
        """Complete the run's directory, all of it on disk."""
        report, store = self._report, self._store
        report.changes += self._gone_since()
        report.changes += self._ended_before()
        for log_dir in store.log_dirs:
            self._offsets.compacted_since(log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY).keys())
            if not store.is_made_here and not is_watermark_known(log_dir):
                report.changes.append(
                    f"{log_dir.path} has no checkpoint of high watermarks that can be read: its logs were copied up to "
                    "their ends"
                )
        report.damage += write_top_files(self._directory, store, self._clock, self._offsets, self._ledger)
        report.beyond += commits_beyond(self._clock, self._directory, self._offsets.ends)
        files = top_files(self._directory)
        report.copied_bytes += sum(file.size_bytes for file in files)
        self._writer.finish(
            {
                "partitions": report.partitions,
                "removed": sorted(name_of(each) for each in self._topic_ids.keys() - self._offsets.ends.keys()),
                "copiedBytes": report.copied_bytes,
                "linkedBytes": report.linked_bytes,
                "changes": report.changes,
                "damage": report.damage,
                "failures": report.failures,
                "beyond": [each.to_json() for each in report.beyond],
                "aboveHighWatermark": {"partitions": len(report.above), "offsets": sum(report.above.values())},
                "files": [file.to_json() for file in files],
            }
        )
        self._directory.sync()


def in_order(partitions: set[Partition]) -> list[Partition]:
    """Return internal topics first, and the cluster's metadata last."""

    def rank(partition: Partition) -> tuple[int, Partition]:
        topic = partition[0]
        return (2 if topic == CLUSTER_METADATA else int(topic not in BROKERS_OWN)), partition

    return sorted(partitions, key=rank)


def name_of(partition: Partition) -> str:
    """Return the name of a partition's directory."""
    return f"{partition[0]}-{partition[1]}"
