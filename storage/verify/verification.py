"""A store verified: what is wrong with its bytes on disk, without changing one.

`Verification` reads every log from end to end and checks the other files against it. Damage is what no broker leaves,
running or killed; a notice is what brokers of any version leave and cope with. It takes no lock, and a broker may be
writing. It verifies strays and copies on their way to another log directory too, but not partitions that are deleted.

Memory is bounded by a window, a batch and the findings of a partition. With several jobs, large stores are spread over
as many processes, a partition or a segment of a giant one at a time. Findings come as each partition is done, those of
one always in the same order.
"""

from __future__ import annotations

import time
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from storage.clock import Clock
from storage.commit.ledger import LEDGER_NAME, Ledger
from storage.errors import (
    ConfigError,
    CorruptCheckpointError,
    CorruptMetadataError,
    NotAStoreError,
    SpecialFileError,
    UnknownPartitionError,
)
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.meta_properties import META_PROPERTIES_NAME, disagreements
from storage.log_dir.names import COMPACTED_BY_BROKERS, DirectoryState
from storage.log_dir.recognition import check_stores
from storage.log_dir.settings_file import SETTINGS_NAME, SettingsFile, SettingsFileContents
from storage.throttle import Throttle
from storage.topics.bare_log_dirs import bare_directories
from storage.verify.at_start import in_partition, of_store
from storage.verify.cluster_check import ClusterCheck, other_topics
from storage.verify.division import Division, verify_in_processes
from storage.verify.finding import Finding, FindingKind, Severity, damage, notice, unreadable
from storage.verify.log_dir_check import Compacted, LogDirCheck, PartitionTarget
from storage.verify.partition import outline_partition, verify_partition
from storage.verify.workers import Crew, do_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from storage.files import Files
    from storage.log_dir.checkpoints import Partition
    from storage.verify.context import LogEnd
    from storage.verify.journal import VerificationJournal
    from storage.verify.partition import PartitionResult

_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_SPREAD_FROM_BYTES: Final = 32 * 1024 * 1024  # below, starting processes takes longer than the work


class Verification:
    """The verification of a store: `run` it once, for the findings, or verify its `targets` elsewhere and `judge` them.

    The broker's `server_properties` say what is compacted where nothing else does. With `topics` only their partitions
    are read, and the files outside of partitions. Up to `jobs` processes share the work, and each calls `prepare`
    first. Raises `NotAStoreError` for a directory that is no log directory or is given twice, `UnknownPartitionError`
    for a topic that the store does not have, and `OSError` if a log directory cannot be listed.

    `total_bytes` is the size of the logs when this was made, and `done_bytes` how many of them were read. `counts` are
    the findings by severity.
    """

    def __init__(
        self,
        files: Files,
        paths: Sequence[Path],
        *,
        topics: Collection[str] = (),
        jobs: int = 1,
        prepare: Callable[[], None] = do_nothing,
        server_properties: Mapping[str, str] = _NONE,
    ) -> None:
        self.partitions = self.segments = self.batches = self.size_bytes = self.done_bytes = 0
        self.counts: Counter[Severity] = Counter()
        self._jobs = jobs
        self._prepare = prepare
        self._log_dirs = _log_dirs(files, paths)
        self._findings: list[Finding] = []
        settings = self._settings()
        self._check_commits()
        self._cluster = ClusterCheck(self._log_dirs)
        set_here = {topic for topic, known in settings.topics.items() if _COMPACT in known.settings.get(_POLICY, "")}
        names = {name.topic for each in self._log_dirs for name in each.listing.partitions}
        compacted = COMPACTED_BY_BROKERS | self._cluster.compacted(names, server_properties) | set_here
        known = Compacted(
            topics=compacted,
            partitions={partition for each in self._log_dirs for partition in each.cleaned},
            current={(name.topic, name.partition) for each in self._log_dirs for name in each.listing.partitions},
        )
        self.targets = [target for each in self._log_dirs for target in each.targets(known, settings.void)]
        self._report_duplicates()
        self._report_disagreement()
        bare = bare_directories([each.directory for each in self._log_dirs])
        self._findings += self._cluster.bare_log_dirs(bare, settings)
        missing = set(topics) - {target.partition[0] for target in self.targets}
        if missing:
            raise UnknownPartitionError(f"there is no topic {min(missing)!r}")
        if topics:
            self.targets = [target for target in self.targets if target.partition[0] in topics]
        self.total_bytes = sum(target.size_bytes for target in self.targets)

    def run(
        self,
        advance: Callable[[], None],
        *,
        journal: VerificationJournal | None = None,
        bytes_per_second_max: float = float("inf"),
    ) -> Iterator[Finding]:
        """Yield the findings; `advance` is called whenever `done_bytes` has grown.

        Partitions that the journal knows are not verified again. The others are read at no more than
        `bytes_per_second_max`, all processes together, and added to the journal.
        """

        def grow(more_bytes: int) -> None:
            self.done_bytes += more_bytes
            advance()

        return self.judge(self._results(grow, journal, bytes_per_second_max))

    def outline(self, ends: Mapping[Partition, LogEnd], advance: Callable[[int], None]) -> Iterator[Finding]:
        """Yield what is found without reading the logs, except for what follows their ends as readers have found them.

        `advance` is called with the number of partitions that were checked.
        """

        def results() -> Iterator[tuple[PartitionTarget, PartitionResult]]:
            for number, target in enumerate(self.targets, start=1):
                end = ends.get(target.partition) if target.state is DirectoryState.CURRENT else None
                yield target, outline_partition(target.expected, end)
                advance(number)

        return self.judge(results())

    def judge(self, results: Iterable[tuple[PartitionTarget, PartitionResult]]) -> Iterator[Finding]:
        """Yield the findings, given the result of each target, in any order."""
        for log_dir in self._log_dirs:
            yield from self._counted(log_dir.findings)
        yield from self._counted(self._findings)
        topic_ids: list[tuple[PartitionTarget, UUID]] = []
        current: list[tuple[PartitionTarget, UUID | None]] = []
        copies: list[tuple[PartitionTarget, UUID | None]] = []
        for target, result in results:
            self.partitions += 1
            self.segments += result.segments
            self.batches += result.batches
            self.size_bytes += result.size_bytes
            if result.topic_id is not None and target.state is not DirectoryState.STRAY:
                topic_ids.append((target, result.topic_id))
            if target.state is DirectoryState.CURRENT:
                current.append((target, result.topic_id))
            elif target.state is DirectoryState.FUTURE:
                copies.append((target, result.topic_id))
            findings = self._without_cleaned(target, result.findings)
            yield from self._counted(map(target.located, in_partition(target.expected, findings)))
        yield from self._counted(other_topics(topic_ids, self._cluster.topic_ids()))
        yield from self._counted(self._cluster.unregistered())
        yield from self._counted(self._cluster.strays(current))
        yield from self._counted(self._cluster.duplicate_copies(copies))

    def _without_cleaned(self, target: PartitionTarget, findings: Sequence[Finding]) -> Sequence[Finding]:
        """Return the findings without the gaps of a log that a cleaner has compacted since the verification began.

        A broker writes the cleaner's checkpoint only after the compacted segments are in place.
        """
        gaps = [finding for finding in findings if finding.kind is FindingKind.OFFSET_GAP]
        if not gaps or target.state is not DirectoryState.CURRENT:
            return findings
        try:
            cleaned = read_offsets(target.log_dir, OffsetCheckpoint.FIRST_DIRTY)
        except (CorruptCheckpointError, OSError):
            return findings
        return [each for each in findings if each not in gaps] if target.partition in cleaned else findings

    def _results(
        self, grow: Callable[[int], None], journal: VerificationJournal | None, bytes_per_second_max: float
    ) -> Iterator[tuple[PartitionTarget, PartitionResult]]:
        left: list[PartitionTarget] = []
        for target in self.targets:
            known = None if journal is None else journal.known(target)
            if known is None:
                left.append(target)
            else:
                grow(target.size_bytes)
                yield target, known
        for target, result in self._verified(left, grow, bytes_per_second_max):
            if journal is not None:
                journal.keep(target, result)
            yield target, result

    def _verified(
        self, targets: Sequence[PartitionTarget], grow: Callable[[int], None], bytes_per_second_max: float
    ) -> Iterator[tuple[PartitionTarget, PartitionResult]]:
        if self._jobs > 1 and sum(target.size_bytes for target in targets) >= _SPREAD_FROM_BYTES:
            division = Division.of(targets, self._jobs)
            if len(division.units) > 1:
                crew = Crew(self._jobs, bytes_per_second_max, self._prepare)
                yield from verify_in_processes(division, crew, advance=grow)
                return
        throttle = Throttle(Clock(), bytes_per_second_max, time.sleep)

        def passed(more_bytes: int) -> None:
            grow(more_bytes)
            throttle.took(more_bytes)

        for target in targets:
            yield target, verify_partition(target.expected, advance=passed)

    def _counted(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        for finding in findings:
            self.counts[finding.severity] += 1
            yield of_store(finding)

    def _settings(self) -> SettingsFileContents:
        """Read the settings file that kafkafs keeps; empty settings if it cannot be read."""
        try:
            found = SettingsFile.find([each.directory for each in self._log_dirs], self._cluster_id())
        except ConfigError as error:
            self._findings.append(damage(FindingKind.SETTINGS, SETTINGS_NAME, error.reason))
            return SettingsFileContents()
        except SpecialFileError:  # which is among what was found in its log directory
            return SettingsFileContents()
        except OSError as error:
            self._findings.append(unreadable(SETTINGS_NAME, error))
            return SettingsFileContents()
        if found.stranger is not None:
            self._findings.append(
                notice(FindingKind.SETTINGS, SETTINGS_NAME, found.stranger).within("", log_dir=found.directory.path)
            )
        return found.current

    def _check_commits(self) -> None:
        """Check the record of commits, without which nothing is known of one that was interrupted."""
        try:
            _ = Ledger([each.directory for each in self._log_dirs]).current
        except CorruptMetadataError as error:
            self._findings.append(damage(FindingKind.COMMITS, LEDGER_NAME, error.reason))
        except SpecialFileError:
            pass  # as with settings
        except OSError as error:
            self._findings.append(unreadable(LEDGER_NAME, error))

    def _cluster_id(self) -> str | None:
        known = (each.properties.cluster_id for each in self._log_dirs if each.properties is not None)
        return next((cluster_id for cluster_id in known if cluster_id), None)

    def _report_duplicates(self) -> None:
        first: dict[tuple[str, int], PartitionTarget] = {}
        for target in self.targets:
            is_current = target.state is DirectoryState.CURRENT
            other = first.setdefault(target.partition, target) if is_current else target
            if other is not target:
                reason = f"{other.log_dir} has the same partition, so which of them holds its records is unknown"
                self._findings.append(target.located(damage(FindingKind.DUPLICATE_PARTITION, "", reason)))

    def _report_disagreement(self) -> None:
        found = {each.directory.path: each.properties for each in self._log_dirs if each.properties is not None}
        for path, reason in disagreements(found):
            finding = damage(FindingKind.META_PROPERTIES, META_PROPERTIES_NAME, reason)
            self._findings.append(finding.within("", log_dir=path))


def _log_dirs(files: Files, paths: Sequence[Path]) -> list[LogDirCheck]:
    directories = [files.add_root(path) for path in paths]
    check_stores(directories)
    found: dict[tuple[int, int], LogDirCheck] = {}
    for directory in directories:
        status = directory.own_status()
        if status is None or status.identity in found:
            raise NotAStoreError("the directory is given twice", path=directory)
        found[status.identity] = LogDirCheck(directory)
    return list(found.values())
