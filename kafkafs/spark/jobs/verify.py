"""`verify`: what is wrong with the bytes of a store, looked for in the workers.

The findings are those of the check on one machine. Partitions are looked through as a whole, small ones several
together; one that would keep a worker busy when the others have long ended is looked through segment by segment, which
is most of the work, and then once more in order.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkafs.spark.jobs.frames import frame_of
from kafkafs.spark.jobs.log_dirs import log_dirs
from kafkafs.spark.jobs.results import cores, results_of, task_bytes
from storage.files import Files
from storage.split.splits import DEFAULT_SPLIT_BYTES, packed
from storage.verify.checking import check_partition
from storage.verify.cut_checking import CutPartition
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.log_dirs import StorePath
    from storage.verify.checking import PartitionVerdict
    from storage.verify.cut_checking import SegmentPiece
    from storage.verify.finding import Finding
    from storage.verify.log_dir_check import PartitionPlace
    from storage.verify.segment_look import SegmentLook

SCHEMA: Final = (
    "severity string, kind string, logDir string, topic string, partition int, path string, position long, "
    "endPosition long, offset long, lastGoodOffset long, nextGoodOffset long, reason string"
)
_CUT_FROM_BYTES: Final = 4 * DEFAULT_SPLIT_BYTES  # below, going through a log twice takes more than it saves
_PARTS: Final = 2  # a partition is left whole up to this part of what each core has to do


class _Whole(NamedTuple):
    """A partition that is looked through as it is."""

    place: PartitionPlace

    @property
    def size_bytes(self) -> int:
        return self.place.size_bytes

    def work(self) -> PartitionVerdict:
        return check_partition(Files(), self.place.expected, advance=lambda _: None)


class _Part(NamedTuple):
    """A segment of a partition that is looked through in pieces."""

    piece: SegmentPiece

    @property
    def size_bytes(self) -> int:
        return self.piece.size_bytes

    def work(self) -> SegmentLook | None:
        return self.piece.look(Files())


class _Looked(NamedTuple):
    """A partition of which all pieces were looked at."""

    cut: CutPartition
    looks: Sequence[SegmentLook | None]


def verify(spark: SparkSession, store: StorePath, topics: Collection[str] | None = None) -> DataFrame:
    """Check every checksum, record, index entry, offset and snapshot: a row for each finding of `kafkafs verify`.

    All is looked at before this returns. Raises a `StorageError` as `Verification` does.
    """
    _, findings = check_store(spark, store, topics)
    return frame_of(spark, [_row(finding) for finding in findings], SCHEMA)


def check_store(
    spark: SparkSession, store: StorePath, topics: Collection[str] | None = None
) -> tuple[Verification, list[Finding]]:
    """The findings, and the check, which says how much was looked at."""
    paths = [Path(path) for path in log_dirs(store)]
    verification = Verification(Files(), paths, topics=topics or ())
    findings = list(verification.judge(_verdicts(spark, verification.places)))
    return verification, findings


def _verdicts(
    spark: SparkSession, places: Sequence[PartitionPlace]
) -> Iterator[tuple[PartitionPlace, PartitionVerdict]]:
    total_bytes = sum(place.size_bytes for place in places)
    cut_from_bytes = max(_CUT_FROM_BYTES, total_bytes // (_PARTS * cores(spark)) + 1)
    whole: list[PartitionPlace] = []
    cut: list[tuple[PartitionPlace, CutPartition]] = []
    for place in places:
        pieces = CutPartition.of(Files(), place.expected) if place.size_bytes >= cut_from_bytes else None
        if pieces is None or len(pieces.pieces) == 1:
            whole.append(place)
        else:
            cut.append((place, pieces))
    whole.sort(key=lambda place: -place.size_bytes)
    units: list[_Whole | _Part] = [_Part(piece) for _, each in cut for piece in each.pieces]
    units += [_Whole(place) for place in whole]
    found: Iterator[Any] = (
        result
        for results in results_of(spark, packed(units, task_bytes(spark, total_bytes)), _work)
        for result in results
    )
    looked = [_Looked(each, [next(found) for _ in each.pieces]) for _, each in cut]
    yield from zip(whole, found, strict=True)
    yield from zip((place for place, _ in cut), results_of(spark, looked, _go_through), strict=True)


def _work(pack: tuple[_Whole | _Part, ...]) -> list[PartitionVerdict | SegmentLook | None]:
    return [unit.work() for unit in pack]


def _go_through(looked: _Looked) -> PartitionVerdict:
    return looked.cut.verdict(Files(), looked.looks)


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
