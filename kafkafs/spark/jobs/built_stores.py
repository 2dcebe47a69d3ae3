"""What the jobs that write a store again share: the place, the tasks and the publishing of the new one.

A task builds one partition; what it does again, or too late, counts once. The driver publishes the store when all are
there. The same call continues an interrupted job.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkafs.spark.errors import JobError
from kafkafs.spark.jobs.log_dirs import log_dirs
from kafkafs.spark.jobs.results import results_of
from storage.clock import Clock
from storage.files import Files
from storage.rewrite import StoreBuilder, built_topics
from storage.split import packed
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from os import PathLike

    from pyspark.sql import SparkSession

    from kafkafs.spark.jobs.log_dirs import StorePath
    from storage.log_dir import Partition


@dataclass(frozen=True, slots=True)
class BuiltPlace:
    """A store that is read, and the place of the one that is built out of it."""

    paths: tuple[str, ...]
    target: str

    @classmethod
    def of(cls, store: StorePath, target: str | PathLike[str]) -> BuiltPlace:
        """The place; raises `JobError` where the one would be within the other, and `OptionError`."""
        (path,) = _one(log_dirs(target))
        paths = log_dirs(store)
        for other in paths:
            if Path(path).resolve().is_relative_to(Path(other).resolve()):
                raise JobError(f"the new store cannot be in {other}, which is read; give a path outside of the store")
        return cls(paths, path)

    def opened(self) -> Store:
        """The store that is read; not one byte of it changes."""
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
        """Provide the builder for the driver: begun again if the partitions change in number, or continued."""
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
        """Publish the store at its place, and return the report of each partition."""
        return build.publish(Clock(), [Path(path) for path in self.paths])


class _Piece(NamedTuple):
    """A partition that is to be built, and how much there is to be read for it."""

    partition: Partition
    size_bytes: int


def build_in_tasks(
    spark: SparkSession,
    place: BuiltPlace,
    build: StoreBuilder,
    work: Callable[[Store, StoreBuilder, Partition], None],
) -> None:
    """Build each missing partition from the source, small ones together in a task."""
    with place.opened() as store:
        pieces = [_Piece(each, _size_bytes(store, each)) for each in build.missing()]

    run = build.run

    def build_pack(pack: tuple[_Piece, ...]) -> None:
        with place.opened() as opened:
            for piece in pack:
                work(opened, place.build(run), piece.partition)

    results_of(spark, packed(pieces), build_pack)


def _size_bytes(store: Store, partition: Partition) -> int:
    return sum(segment.size_bytes for segment in store.log(*partition).view.segments)


def _one(paths: Sequence[str]) -> Sequence[str]:
    if len(paths) > 1:
        raise JobError("the new store is one directory: give one path for it")
    return paths
