"""`verify`: finds what is wrong with the bytes of a store, as `kafkafs verify` does.

A task verifies a whole partition, or several small ones. A partition that would keep a worker busy long after the
others is verified segment by segment, which is most of the work, and then read once more in order.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkafs.spark.jobs.stores import log_dirs
from kafkafs.spark.jobs.tasks import answers_of, cores, frame_of, task_bytes
from kafkafs.spark.sight import SeenLogDir, Sight, Sighted, properties_of, seen_by_listing, seen_less
from storage.files import Files
from storage.segment import FileSuffix, Kind, parse_name
from storage.split import packed
from storage.verify import Division, PartitionPiece, Verification, VerifiedPieces

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from kafkafs.spark.sight import SeenLog
    from storage.files import Directory
    from storage.verify import Finding, PartitionResult, PartitionTarget, SegmentResult, WholePartition

SCHEMA: Final = (
    "severity string, kind string, logDir string, topic string, partition int, path string, position long, "
    "endPosition long, offset long, lastGoodOffset long, nextGoodOffset long, reason string, "
    "startAction string, atStart string"
)


def verify(spark: SparkSession, store: StorePath, topics: Collection[str] | None = None) -> DataFrame:
    """Check every checksum, record, index entry, offset and snapshot: a row for each finding of `kafkafs verify`.

    Verification is complete when this returns. Raises a `StorageError` as `Verification` does, and `SeenLessError` if a
    task does not see what the driver saw.
    """
    _, findings = check_store(spark, store, topics)
    return frame_of(spark, [_row(finding) for finding in findings], SCHEMA)


def check_store(
    spark: SparkSession, store: StorePath, topics: Collection[str] | None = None
) -> tuple[Verification, list[Finding]]:
    """Return the verification, which says how much was read, and the findings."""
    paths = [Path(path) for path in log_dirs(store)]
    verification = Verification(Files(), paths, topics=topics or ())
    findings = list(verification.judge(_results(spark, verification.targets)))
    return verification, findings


def _results(
    spark: SparkSession, targets: Sequence[PartitionTarget]
) -> Iterator[tuple[PartitionTarget, PartitionResult]]:
    total_bytes = sum(target.size_bytes for target in targets)
    division = Division.of(targets, cores(spark))
    sights = _Sights(targets)
    packs = [Sighted(pack, sights.of(pack)) for pack in packed(division.units, task_bytes(spark, total_bytes))]
    answers = answers_of(spark, packs, _work)
    found: Iterator[Any] = (result for answer in answers for result in answer.result)
    pieces_of = [VerifiedPieces(target, cut, [next(found) for _ in cut.pieces]) for target, cut in division.cut]
    for answer in answers:
        sights.drop(answer.dropped)
    for target, result in zip(division.whole, found, strict=True):
        sights.check(target, result)
        yield target, result
    ends = answers_of(spark, [Sighted(each, sights.of([each])) for each in pieces_of], _result_of)
    for each, end in zip(pieces_of, ends, strict=True):
        sights.drop(end.dropped)
        sights.check(each.target, end.result)
        yield each.target, end.result


class _Sights:
    """What the driver saw of each partition to verify, and how many segments are to be verified of it."""

    def __init__(self, targets: Sequence[PartitionTarget]) -> None:
        log_dirs = {target.log_dir.path: target.log_dir for target in targets}
        self._log_dirs = tuple(SeenLogDir(path, properties_of(each)) for path, each in log_dirs.items())
        self._logs: dict[str, SeenLog] = {}
        self._counts: dict[str, int] = {}
        for target in targets:
            directory = target.expected.directory
            self._logs[str(directory)] = seen_by_listing(directory, is_compacted=target.expected.is_compacted)
            self._counts[str(directory)] = _segments_in(directory)
        self._dropped: Counter[str] = Counter()

    def of(self, units: Iterable[WholePartition | PartitionPiece | VerifiedPieces]) -> Sight:
        """Return the sight of the partitions, or of the segments, that these are about."""
        whole: dict[str, None] = {}
        parts: dict[str, set[int]] = {}
        for unit in units:
            directory = str(unit.target.expected.directory)
            if isinstance(unit, PartitionPiece):
                parts.setdefault(directory, set()).add(unit.piece.expected.base_offset)
            else:
                whole[directory] = None
        logs = [self._logs[directory] for directory in whole]
        logs += [self._logs[directory].part(bases) for directory, bases in parts.items()]
        return Sight(self._log_dirs, tuple(logs))

    def drop(self, dropped: Mapping[str, int]) -> None:
        """Note the segments that logs have dropped since; each task tells of all that it knows of."""
        for directory, count in dropped.items():
            self._dropped[directory] = max(count, self._dropped[directory])

    def check(self, target: PartitionTarget, result: PartitionResult) -> None:
        """Raise `SeenLessError` if fewer segments were verified than were there and the log has not dropped."""
        directory = str(target.expected.directory)
        count = self._counts[directory]
        if result.segments + self._dropped[directory] < count:
            raise seen_less(f"{result.segments} of {count} segments of {directory} were verified")


def _segments_in(directory: Directory) -> int:
    """Return the number of segments that are in place, without those that are to replace them."""
    try:
        names = map(parse_name, directory.names())
    except OSError:
        return 0
    return sum(name is not None and name.kind is Kind.LOG and name.suffix is FileSuffix.LIVE for name in names)


def _work(pack: tuple[WholePartition | PartitionPiece, ...]) -> list[PartitionResult | SegmentResult | None]:
    return [unit.verify(_ignore) for unit in pack]


def _result_of(pieces: VerifiedPieces) -> PartitionResult:
    return pieces.verify(_ignore)


def _ignore(_more_bytes: int) -> None:
    pass


def _row(finding: Finding) -> tuple[Any, ...]:
    return (
        finding.severity.value,
        finding.kind.value,
        finding.log_dir,
        finding.topic,
        finding.partition,
        finding.path,
        finding.position,
        finding.end_position,
        finding.offset,
        finding.last_good_offset,
        finding.next_good_offset,
        finding.reason,
        finding.start_action,
        finding.at_start,
    )
