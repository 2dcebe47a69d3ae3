"""`verify`: finds what is wrong with the bytes of a store, as `kafkafs verify` does.

A task verifies a whole partition, or several small ones. A partition that would keep a worker busy long after the
others is verified segment by segment, which is most of the work, and then read once more in order.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkafs.spark.jobs.stores import log_dirs
from kafkafs.spark.jobs.tasks import cores, frame_of, results_of, task_bytes
from storage.files import Files
from storage.split import DEFAULT_SPLIT_BYTES, packed
from storage.verify import CutPartition, Verification, verify_partition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from storage.verify import Finding, PartitionResult, PartitionTarget, SegmentPiece, SegmentResult

SCHEMA: Final = (
    "severity string, kind string, logDir string, topic string, partition int, path string, position long, "
    "endPosition long, offset long, lastGoodOffset long, nextGoodOffset long, reason string"
)
_CUT_FROM_BYTES: Final = 4 * DEFAULT_SPLIT_BYTES  # below, reading a log twice costs more than it saves
_PARTS: Final = 2  # a partition stays whole up to this part of the work of each core


class _Whole(NamedTuple):
    """A partition that is verified as a whole."""

    target: PartitionTarget

    @property
    def size_bytes(self) -> int:
        return self.target.size_bytes

    def work(self) -> PartitionResult:
        return verify_partition(self.target.expected, advance=lambda _: None)


class _Part(NamedTuple):
    """A segment of a partition that is verified in pieces."""

    piece: SegmentPiece

    @property
    def size_bytes(self) -> int:
        return self.piece.size_bytes

    def work(self) -> SegmentResult | None:
        return self.piece.verify()


class _Pieces(NamedTuple):
    """A partition whose pieces are all verified."""

    cut: CutPartition
    results: Sequence[SegmentResult | None]


def verify(spark: SparkSession, store: StorePath, topics: Collection[str] | None = None) -> DataFrame:
    """Check every checksum, record, index entry, offset and snapshot: a row for each finding of `kafkafs verify`.

    Verification is complete when this returns. Raises a `StorageError` as `Verification` does.
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
    cut_from_bytes = max(_CUT_FROM_BYTES, total_bytes // (_PARTS * cores(spark)) + 1)
    whole: list[PartitionTarget] = []
    cut: list[tuple[PartitionTarget, CutPartition]] = []
    for target in targets:
        pieces = CutPartition.of(target.expected) if target.size_bytes >= cut_from_bytes else None
        if pieces is None or len(pieces.pieces) == 1:
            whole.append(target)
        else:
            cut.append((target, pieces))
    whole.sort(key=lambda target: -target.size_bytes)
    units: list[_Whole | _Part] = [_Part(piece) for _, each in cut for piece in each.pieces]
    units += [_Whole(target) for target in whole]
    found: Iterator[Any] = (
        result
        for results in results_of(spark, packed(units, task_bytes(spark, total_bytes)), _work)
        for result in results
    )
    pieces_of = [_Pieces(each, [next(found) for _ in each.pieces]) for _, each in cut]
    yield from zip(whole, found, strict=True)
    yield from zip((target for target, _ in cut), results_of(spark, pieces_of, _result_of), strict=True)


def _work(pack: tuple[_Whole | _Part, ...]) -> list[PartitionResult | SegmentResult | None]:
    return [unit.work() for unit in pack]


def _result_of(pieces: _Pieces) -> PartitionResult:
    return pieces.cut.result(pieces.results)


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
    )
