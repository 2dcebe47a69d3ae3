"""The stores of a job: those that it reads, and the new one that it builds.

A task builds one partition of a new store; a partition that two tasks build counts once. Other tasks may have built
pieces of a large one before. The driver publishes the store when it has all partitions. The same call continues an
interrupted job.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from kafkafs.damage import Damage
from kafkafs.spark.bounds import Edge
from kafkafs.spark.errors import JobError
from kafkafs.spark.jobs.tasks import frame_of, results_of, task_bytes
from kafkafs.spark.opened_store import OpenedStore
from kafkafs.spark.options import StoreOptions, parse_paths
from kafkafs.spark.sight import Sighted, Sights
from storage.clock import Clock
from storage.files import Files
from storage.rewrite import LogPiece, StoreBuilder, built_topics, pieces_of
from storage.split import packed
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import NoReturn

    from pyspark.sql import DataFrame, SparkSession

    from storage.errors import RecordsGoneError
    from storage.log_dir import Partition

Built = TypeVar("Built")

StorePath: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]
"""A log directory, or several, as a sequence or with commas between them."""


def log_dirs(store: StorePath) -> tuple[str, ...]:
    """Return absolute paths, which are the same in every process; raises `OptionError` if there is none."""
    paths = [store] if isinstance(store, str | PathLike) else store
    return parse_paths({"path": ",".join(fspath(path) for path in paths)})


def opened(store: StorePath, topics: Collection[str] | None, *, damage: Damage = Damage.STOP) -> OpenedStore:
    """Open a store with these topics, or all, for planning, which does at damage what `damage` says; close it."""
    options = {"path": ",".join(log_dirs(store)), "damage": damage.value}
    if topics is not None:
        options["subscribe"] = ",".join(topics)
    return OpenedStore(StoreOptions.parse(options, Edge.EARLIEST))


def refuse(loss: RecordsGoneError) -> NoReturn:
    """Fail: the remaining records would tell nothing about the log as it was planned."""
    raise loss


@dataclass(frozen=True, slots=True)
class BuiltPlace:
    """The log directories of a store that is read, and the path of the store that is built from it."""

    paths: tuple[str, ...]
    target: str

    @classmethod
    def of(cls, store: StorePath, target: str | PathLike[str]) -> BuiltPlace:
        """Return the place; raises `OptionError`, and `JobError` if the new store would be in the one that is read."""
        targets = log_dirs(target)
        if len(targets) > 1:
            raise JobError("the new store is one directory: give one path for it")
        paths = log_dirs(store)
        for other in paths:
            if Path(targets[0]).resolve().is_relative_to(Path(other).resolve()):
                raise JobError(f"the new store cannot be in {other}, which is read; give a path outside of the store")
        return cls(paths, targets[0])

    def opened(self) -> Store:
        """Open the store that is read; not one byte of it changes."""
        return Store.open(self.paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock())

    def build(self, run: str) -> StoreBuilder:
        """Return the builder of a run, for one of its tasks."""
        return StoreBuilder.opened(Files(), Path(self.target), run)

    @contextmanager
    def begun(
        self,
        purpose: Mapping[str, object],
        topics: Collection[str] | None,
        settings: Mapping[str, str],
        *,
        partitions: int | None = None,
    ) -> Iterator[StoreBuilder]:
        """Provide the driver's builder: of a new run if the number of partitions changes, else of a continued one."""
        names = None if topics is None else list(dict.fromkeys(topics))
        said = {**purpose, "store": list(self.paths), "topics": names, "settings": dict(settings)}
        with self.opened() as store:
            built = built_topics(store, names, settings, partitions=partitions)
        build = StoreBuilder.begin(Files(), Clock(), Path(self.target), said, built, resumes=partitions is None)
        try:
            yield build
        finally:
            build.close()

    def publish(self, build: StoreBuilder) -> dict[Partition, dict[str, Any]]:
        """Give the store its name, and return the report of each partition."""
        return build.publish(Clock(), [Path(path) for path in self.paths])


class _Piece(NamedTuple):
    """A partition to build, and how many bytes are read for it."""

    partition: Partition
    size_bytes: int


def build_in_tasks(
    spark: SparkSession,
    place: BuiltPlace,
    build: StoreBuilder,
    work: Callable[[Store, StoreBuilder, Partition], None],
) -> None:
    """Build each missing partition from the source, several small ones in a task."""
    with place.opened() as store:
        sights = Sights(store)
        pieces = packed(_Piece(each, _size_bytes(store, each)) for each in build.missing())
        packs = [Sighted(pack, sights.of_logs(each.partition for each in pack)) for pack in pieces]

    run = build.run

    def build_pack(pack: tuple[_Piece, ...]) -> None:
        with place.opened() as opened:
            for piece in pack:
                work(opened, place.build(run), piece.partition)

    results_of(spark, packs, build_pack)


def build_from_pieces(
    spark: SparkSession,
    place: BuiltPlace,
    build: StoreBuilder,
    work: Callable[[Store, StoreBuilder, LogPiece], Built],
) -> dict[Partition, list[Built]]:
    """Build the pieces of each missing partition that is larger than what a task should read, and return their results.

    A partition whose segments allow only one piece has none.
    """
    with place.opened() as store:
        sizes = {each: _size_bytes(store, each) for each in build.missing()}
        piece_bytes = task_bytes(spark, sum(sizes.values()))
        sights, found = Sights(store), list[Sighted[LogPiece]]()
        for partition, size_bytes in sizes.items():
            pieces = pieces_of(partition, store.log(*partition).view, piece_bytes) if size_bytes > piece_bytes else ()
            if len(pieces) > 1:
                sight = sights.of_logs([partition])
                found += [Sighted(piece, sight) for piece in pieces]
    run = build.run

    def build_piece(piece: LogPiece) -> Built:
        with place.opened() as opened:
            return work(opened, place.build(run), piece)

    built: dict[Partition, list[Built]] = {}
    for sighted, result in zip(found, results_of(spark, found, build_piece), strict=True):
        built.setdefault(sighted.piece.partition, []).append(result)
    return built


def frame_of_reports(spark: SparkSession, reports: Mapping[Partition, Mapping[str, Any]], schema: str) -> DataFrame:
    """Return a row for each partition, whose report has the other columns under their names."""
    names = [field.split()[0] for field in schema.split(", ")][2:]
    rows = [(*partition, *(reports[partition].get(name) for name in names)) for partition in sorted(reports)]
    return frame_of(spark, rows, schema)


def _size_bytes(store: Store, partition: Partition) -> int:
    return sum(segment.size_bytes for segment in store.log(*partition).view.segments)
