"""What is wrong with the bytes of a store on disk, without changing one.

`Verification` reads every log from end to end, checks all that is beside it against it, and tells apart what nobody
leaves behind who runs or is killed (damage) from what brokers of any version leave and cope with (a notice). No lock is
taken, and a broker may be writing. Directories of strays and of partitions that are on their way to another log
directory are looked through like the others; those of partitions that are deleted are left out: nothing in them counts.

Memory stays within a window, a batch and the findings of a partition. With several jobs large stores are spread over
as many processes, a partition at a time and the largest first; findings come as each partition is done, those of one
always in the same order.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from storage.errors import (
    ConfigError,
    CorruptCheckpointError,
    NotAStoreError,
    SymbolicLinkError,
    UnknownPartitionError,
)
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.directory_names import DirectoryState
from storage.log_dir.meta_properties import META_PROPERTIES_NAME, disagreements
from storage.log_dir.recognition import check_stores
from storage.log_dir.settings_file import SettingsFile
from storage.log_dir.topic_names import COMPACTED_BY_BROKERS
from storage.log_dir.topic_settings import SETTINGS_NAME, TopicSettings
from storage.verify.checking import check_partition
from storage.verify.cluster_check import ClusterCheck
from storage.verify.finding import Finding, FindingKind, Severity, damage, notice
from storage.verify.log_dir_check import Compacted, LogDirCheck, PartitionPlace
from storage.verify.topic_id_check import other_topics
from storage.verify.workers import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from storage.files import Files
    from storage.verify.checking import PartitionVerdict

_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_SPREAD_FROM_BYTES: Final = 32 * 1024 * 1024  # below, starting processes takes longer than the work


class Verification:
    """The check of a store; `run` it once, for the findings, or have others look at its `places` and `judge` them.

    The broker's `server_properties` say what is compacted where nothing else does. Of a store of which only some topics
    are asked for, those partitions are looked through, and all that is outside of partitions. Raises `NotAStoreError`
    for a directory that has nothing of a log directory or is given twice, `UnknownPartitionError` for a topic that is
    not there, and `OSError` if a log directory cannot be listed.

    `total_bytes` are the logs' when this was made, and `done_bytes` how many of them were looked at. `counts` are the
    findings by severity.
    """

    def __init__(
        self,
        files: Files,
        paths: Sequence[Path],
        *,
        topics: Collection[str] = (),
        jobs: int = 1,
        server_properties: Mapping[str, str] = _NONE,
    ) -> None:
        self.partitions = self.segments = self.batches = self.size_bytes = self.done_bytes = 0
        self.counts: Counter[Severity] = Counter()
        self._files = files
        self._jobs = jobs
        self._log_dirs = _log_dirs(files, paths)
        self._findings: list[Finding] = []
        settings = self._settings(paths)
        self._cluster = ClusterCheck(files, self._log_dirs)
        told = {topic for topic, known in settings.topics.items() if _COMPACT in known.settings.get(_POLICY, "")}
        names = {name.topic for each in self._log_dirs for name in each.listing.partitions}
        compacted = COMPACTED_BY_BROKERS | self._cluster.compacted(names, server_properties) | told
        known = Compacted(
            topics=compacted,
            partitions={partition for each in self._log_dirs for partition in each.cleaned},
            current={(name.topic, name.partition) for each in self._log_dirs for name in each.listing.partitions},
        )
        self.places = [place for each in self._log_dirs for place in each.places(known, settings.void)]
        self._report_duplicates()
        self._report_disagreement()
        missing = set(topics) - {place.partition[0] for place in self.places}
        if missing:
            raise UnknownPartitionError(f"there is no topic {min(missing)!r}")
        if topics:
            self.places = [place for place in self.places if place.partition[0] in topics]
        self.total_bytes = sum(place.size_bytes for place in self.places)

    def run(self, advance: Callable[[], None]) -> Iterator[Finding]:
        """The findings; `advance` is called whenever `done_bytes` has grown."""

        def grow(more_bytes: int) -> None:
            self.done_bytes += more_bytes
            advance()

        return self.judge(self._verdicts(grow))

    def judge(self, verdicts: Iterable[tuple[PartitionPlace, PartitionVerdict]]) -> Iterator[Finding]:
        """The findings, of which those of the places are in these verdicts: of each one, in any order."""
        for log_dir in self._log_dirs:
            yield from self._counted(log_dir.findings)
        yield from self._counted(self._findings)
        topic_ids: list[tuple[PartitionPlace, UUID]] = []
        current: list[tuple[PartitionPlace, UUID | None]] = []
        for place, verdict in verdicts:
            self.partitions += 1
            self.segments += verdict.segments
            self.batches += verdict.batches
            self.size_bytes += verdict.size_bytes
            if verdict.topic_id is not None and place.state is not DirectoryState.STRAY:
                topic_ids.append((place, verdict.topic_id))
            if place.state is DirectoryState.CURRENT:
                current.append((place, verdict.topic_id))
            yield from self._counted(place.located(finding) for finding in self._lasting(place, verdict.findings))
        yield from self._counted(other_topics(topic_ids, self._cluster.topic_ids()))
        yield from self._counted(self._cluster.strays(current))

    def _lasting(self, place: PartitionPlace, findings: Sequence[Finding]) -> Sequence[Finding]:
        """The findings without gaps in a log that a cleaner went through since the check began.

        A broker notes how far its cleaner came only after it has put the compacted segments in their places.
        """
        gaps = [finding for finding in findings if finding.kind is FindingKind.OFFSET_GAP]
        if not gaps or place.state is not DirectoryState.CURRENT:
            return findings
        try:
            cleaned = read_offsets(self._files.directory(Path(place.log_dir)), OffsetCheckpoint.FIRST_DIRTY)
        except (CorruptCheckpointError, SymbolicLinkError, OSError):
            return findings
        return [each for each in findings if each not in gaps] if place.partition in cleaned else findings

    def _verdicts(self, grow: Callable[[int], None]) -> Iterator[tuple[PartitionPlace, PartitionVerdict]]:
        jobs = min(self._jobs, len(self.places))
        if jobs > 1 and self.total_bytes >= _SPREAD_FROM_BYTES:
            places = sorted(self.places, key=lambda place: -place.size_bytes)
            for number, verdict in spread(self._files, [place.expected for place in places], jobs, advance=grow):
                yield places[number], verdict
        else:
            for place in self.places:
                yield place, check_partition(self._files, place.expected, advance=grow)

    def _counted(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        for finding in findings:
            self.counts[finding.severity] += 1
            yield finding

    def _settings(self, paths: Sequence[Path]) -> TopicSettings:
        """What kafkafs knows of topics; nothing if that cannot be read."""
        try:
            found = SettingsFile.find([self._files.directory(path) for path in paths], self._cluster_id())
        except ConfigError as error:
            self._findings.append(damage(FindingKind.SETTINGS, SETTINGS_NAME, error.reason))
            return TopicSettings()
        except SymbolicLinkError:  # which is among what was found in its log directory
            return TopicSettings()
        if found.stranger is not None:
            self._findings.append(
                notice(FindingKind.SETTINGS, SETTINGS_NAME, found.stranger).within("", log_dir=found.directory.path)
            )
        return found.current

    def _cluster_id(self) -> str | None:
        known = (each.properties.cluster_id for each in self._log_dirs if each.properties is not None)
        return next((cluster_id for cluster_id in known if cluster_id), None)

    def _report_duplicates(self) -> None:
        first: dict[tuple[str, int], PartitionPlace] = {}
        for place in self.places:
            is_current = place.state is DirectoryState.CURRENT
            other = first.setdefault(place.partition, place) if is_current else place
            if other is not place:
                reason = f"{other.log_dir} has the same partition, so which of them holds its records is unknown"
                self._findings.append(place.located(damage(FindingKind.DUPLICATE_PARTITION, "", reason)))

    def _report_disagreement(self) -> None:
        found = {str(each.path): each.properties for each in self._log_dirs if each.properties is not None}
        for path, reason in disagreements(found):
            finding = damage(FindingKind.META_PROPERTIES, META_PROPERTIES_NAME, reason)
            self._findings.append(finding.within("", log_dir=path))


def _log_dirs(files: Files, paths: Sequence[Path]) -> list[LogDirCheck]:
    check_stores(files, paths)
    found: dict[tuple[int, int], LogDirCheck] = {}
    for path in paths:
        status = files.status(path)
        if status is None or status.identity in found:
            raise NotAStoreError("the directory is given twice", path=path)
        found[status.identity] = LogDirCheck(files, path)
    return list(found.values())
