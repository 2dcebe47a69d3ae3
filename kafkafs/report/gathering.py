"""Gathers a report from a store, a broker's live one too, and changes nothing.

Each partition is looked at by itself: one that cannot be read is a row with the reason, and a finding. Memory is
bounded by the number of segments, and not by what is in them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.report.consumers import Consumers
from kafkafs.report.facts import FindingFacts, KeyFacts, LogDirFacts, PartitionFacts, Report, topics_of
from kafkafs.report.keys import KeyCounts
from kafkafs.report.next_steps import next_step
from kafkafs.report.partition import Depth, PartitionReading
from kafkafs.report.timeline import NewestDay
from storage.errors import StorageError, UnknownPartitionError
from storage.log_dir import BROKERS_OWN, DirectoryName
from storage.store import StoreCompaction, StoreRetention
from storage.verify import FindingKind, Severity, Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkafs.report.partition import Found
    from storage.clock import Clock
    from storage.files import Files
    from storage.log_dir import Partition
    from storage.store import Store
    from storage.verify import Finding, LogEnd

VERIFYING: Final = "verifying"
"""What is announced in bytes; everything else is announced by number."""
_SAMPLES: Final = 4096
"""The batches that are looked into, spread over all partitions, unless all are."""
_SAMPLES_MAX: Final = 64
"""Those of one partition."""
_KEYS: Final = 10


class Extent(NamedTuple):
    """How much a report tells: with `is_full` everything is read, in as many processes as `jobs`; `has_keys` or not."""

    is_full: bool = False
    has_keys: bool = True
    jobs: int = 1


class Gathering:
    """One report in the making: of some partitions of a store that is open for reading.

    `announce` is called with what is being done, how much of it is done, and how much there is.
    """

    def __init__(
        self,
        store: Store,
        files: Files,
        clock: Clock,
        extent: Extent,
        announce: Callable[[str, int, int], None],
        *,
        broker_settings: Mapping[str, str],
    ) -> None:
        self._store = store
        self._files = files
        self._clock = clock
        self._extent = extent
        self._announce = announce
        self._broker_settings = broker_settings
        self._paths: Sequence[Path] = [log_dir.path for log_dir in store.log_dirs]
        self._day = NewestDay(clock.now_ms())
        self._keys: dict[str, KeyCounts] = {}
        self._findings: list[FindingFacts] = []
        self._ends: dict[Partition, LogEnd] = {}
        self._sampled_batches = 0

    def report(self, chosen: Sequence[Partition], topics: Sequence[str], version: str) -> Report:
        """Return the report of the chosen partitions; `topics` are the ones that they are of, none if of all."""
        made_ms = self._clock.now_ms()
        partitions = tuple(self._partitions(chosen))
        verified = list(self._verified(topics))
        readable = {(each.topic, each.partition): each for each in partitions if each.error is None}
        consumers = Consumers(self._store, self._clock, readable, is_full=self._extent.is_full)
        self._announce("reading groups and transactions", 0, 1)
        groups, transactions = consumers.groups(), consumers.transactions()
        known = {(each.path, each.kind, each.position) for each in verified}
        found = [each for each in self._findings if (each.path, each.kind, each.position) not in known]
        findings = tuple(sorted([*verified, *found], key=_by_severity))
        partitions = tuple(_marked(partitions, findings))
        return Report(
            store=",".join(map(str, self._paths)),
            made_ms=made_ms,
            version=version,
            is_full=self._extent.is_full,
            has_keys=self._extent.has_keys,
            log_dirs=tuple(self._log_dirs(partitions)),
            partitions=partitions,
            topics=topics_of(partitions, self._day.of_topics()),
            newest_ms=self._day.newest_ms,
            growth=self._day.growth.buckets(),
            day=self._day.buckets(),
            doubtful_segments=self._day.doubtful_segments,
            sampled_batches=self._sampled_batches,
            keys=tuple(self._top_keys()),
            has_groups=consumers.has_groups,
            groups=groups,
            transactions=transactions,
            findings=findings,
            shortcomings=tuple(dict.fromkeys(consumers.shortcomings)),
        )

    def _partitions(self, chosen: Sequence[Partition]) -> Iterator[PartitionFacts]:
        samples = None if self._extent.is_full else max(1, min(_SAMPLES_MAX, _SAMPLES // max(len(chosen), 1)))
        reading = PartitionReading(
            self._store,
            StoreRetention(self._store, self._clock),
            StoreCompaction(self._store, self._clock, wait=lambda _: None),
            Depth(samples, self._extent.has_keys),
            lambda: self._announce("looking at partitions", number, len(chosen)),
        )
        for number, (topic, partition) in enumerate(chosen, start=1):  # noqa: B007 -- it is announced
            try:
                found = reading.look(topic, partition)
            except UnknownPartitionError:
                continue  # it was deleted meanwhile
            except (StorageError, OSError) as error:
                yield self._unreadable(topic, partition, error)
                continue
            self._take(found)
            yield found.facts

    def _take(self, found: Found) -> None:
        topic = found.facts.topic
        self._day.add(topic, found.written)
        self._findings += found.findings
        if found.end is not None:
            self._ends[topic, found.facts.partition] = found.end
        self._sampled_batches += found.contents.batches
        self._keys.setdefault(topic, KeyCounts()).merge(found.contents.keys)

    def _unreadable(self, topic: str, partition: int, error: StorageError | OSError) -> PartitionFacts:
        reason = error.reason if isinstance(error, StorageError) else error.strerror or str(error)
        directory = str(DirectoryName(topic, partition))
        self._findings.append(
            FindingFacts(
                severity=Severity.UNREADABLE,
                kind=FindingKind.UNREADABLE,
                path=directory,
                position=None,
                offset=None,
                reason=reason,
                at_start=None,
                next_step=next_step(FindingKind.UNREADABLE),
            )
        )
        log_dir = self._store.topics.inventory.log_dir(topic, partition)
        where = "" if log_dir is None else str(log_dir.path)
        return PartitionFacts(topic=topic, partition=partition, log_dir=where, error=reason)

    def _verified(self, topics: Sequence[str]) -> Iterator[FindingFacts]:
        """Yield the findings of `verify`: all, or those that take no reading of the logs."""
        verification = Verification(
            self._files,
            self._paths,
            topics=topics,
            jobs=self._extent.jobs,
            server_properties=self._broker_settings,
        )

        def advance() -> None:
            self._announce(VERIFYING, verification.done_bytes, verification.total_bytes)

        def count(number: int) -> None:
            self._announce("looking at files", number, len(verification.targets))

        for finding in verification.run(advance) if self._extent.is_full else verification.outline(self._ends, count):
            yield _facts_of(finding)

    def _log_dirs(self, partitions: Sequence[PartitionFacts]) -> Iterator[LogDirFacts]:
        for log_dir in self._store.log_dirs:
            own = [each for each in partitions if each.log_dir == str(log_dir.path)]
            free_bytes: int | None = None
            with suppress(StorageError, OSError):  # an object store has none
                free_bytes = log_dir.directory.free_bytes()
            yield LogDirFacts(
                path=str(log_dir.path),
                partitions=len(own),
                size_bytes=sum(each.size_bytes for each in own),
                free_bytes=free_bytes,
            )

    def _top_keys(self) -> Iterator[KeyFacts]:
        for topic, counts in sorted(self._keys.items()):
            if topic in BROKERS_OWN:
                continue  # their keys are messages
            for key in counts.top(_KEYS):
                yield KeyFacts(topic=topic, key=key.key, records=key.records, over=key.over, looked_at=counts.records)


def _facts_of(finding: Finding) -> FindingFacts:
    return FindingFacts(
        severity=finding.severity,
        kind=finding.kind,
        path=finding.path,
        position=finding.position,
        offset=finding.offset,
        reason=finding.reason,
        at_start=finding.at_start,
        next_step=next_step(finding.kind, finding.severity),
    )


def _by_severity(finding: FindingFacts) -> tuple[int, str, str, int]:
    order = (Severity.DAMAGE, Severity.UNREADABLE, Severity.NOTICE)
    return order.index(Severity(finding.severity)), finding.kind, finding.path, finding.position or 0


def _marked(partitions: Sequence[PartitionFacts], findings: Sequence[FindingFacts]) -> Iterator[PartitionFacts]:
    """Yield the partitions with the damage that was found in the files of their segments."""
    damaged: dict[tuple[str, int], str] = {}
    for finding in findings:
        directory, _, name = finding.path.rpartition("/")
        base = name.partition(".")[0]
        if finding.severity != Severity.NOTICE and len(base) == 20 and base.isdecimal():
            damaged.setdefault((directory, int(base)), finding.reason)
    for partition in partitions:
        marks = {each.base_offset: damaged.get((partition.name, each.base_offset)) for each in partition.segments}
        if any(marks.values()):
            segments = (replace(each, damage=marks[each.base_offset] or each.damage) for each in partition.segments)
            yield replace(partition, segments=tuple(segments))
        else:
            yield partition
