"""A store that is made anew, partition by partition and by many processes, and appears whole where it is to be.

It is built in a directory beside its place, which gets its name in the end. Each attempt at a partition works in a
directory of its own, and the first that is done counts, so that failed, repeated and late attempts leave nothing. One
process begins and publishes, and keeps others from it meanwhile. If it dies, whoever begins the same again goes on with
the partitions that are done.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from storage.commit.ledger import Entries, Ledger
from storage.errors import BuildError, StoreLockedError
from storage.files import replace_file
from storage.ids import format_id, parse_id
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.creation import check_vacant, make_directories, write_store
from storage.log_dir.directory_names import DirectoryName
from storage.log_dir.log_dir import distinct_log_dirs
from storage.log_dir.recognition import LOCK_NAME
from storage.log_dir.removals import Removals
from storage.log_dir.topic_settings import KnownTopic, TopicSettings, write_topic_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from storage.clock import Clock
    from storage.files import FileLock, Files
    from storage.log_dir.checkpoints import Partition

BUILDING_SUFFIX: Final = ".kafkafs-building"

ATTEMPT_SUFFIX: Final = ".attempt"
"""Of directories that are gone once the store is published."""

_PURPOSE_NAME: Final = "kafkafs-building.json"
_FINISHED_NAME: Final = "kafkafs-built.json"
_REPORT_NAME: Final = "kafkafs-report.json"
_RUN_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPartition:
    """A log that was written, and what is to be told of it.

    `first_dirty_offset` is where a cleaner is to begin; without it, no offset is missing in the log.
    """

    base_offset: int
    start_offset: int
    end_offset: int
    first_dirty_offset: int | None
    told: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BuiltTopic:
    """A topic of the new store."""

    known: KnownTopic
    partitions: tuple[int, ...]


class StoreBuilder:
    """What is built for a place. `begin` is for the process that publishes, `opened` for those that build partitions.

    `begun_ms` is when the run began, which stays the same for whoever completes it.
    """

    def __init__(
        self, files: Files, target: Path, directory: Path, said: Mapping[str, Any], lock: FileLock | None
    ) -> None:
        self.target = target
        self.directory = directory
        self.run = str(said["run"])
        self.begun_ms = int(said["begunMs"])
        self.topics = MappingProxyType({topic: _topic(each) for topic, each in said["topics"].items()})
        self._files = files
        self._said = said
        self._lock = lock

    # The process that begins and publishes

    @classmethod
    def begin(
        cls,
        files: Files,
        clock: Clock,
        target: Path,
        purpose: Mapping[str, object],
        topics: Mapping[str, BuiltTopic],
        *,
        resumes: bool = True,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> Self:
        """Begin to build a store of these topics, or go on where a run for the same purpose has ended.

        Without `resumes` what that has left is done again. Raises `NotAStoreError` where no store can be made,
        `BuildError` where something else is being made, and `StoreLockedError` where somebody is at it just now.
        """
        purpose = json.loads(json.dumps(purpose))
        published = _read(files, target / _FINISHED_NAME)
        if published is not None and published["purpose"] == purpose:
            return cls(files, target, target, published, _locked(files, target))
        check_vacant(files, [target], is_replaced=True)
        directory = _directory(target)
        if files.status(directory) is None:
            make_directories(files, [directory])
        lock = _locked(files, directory)
        try:
            said = _begun_before(files, directory, purpose)
            if said is None or not resumes:
                said = {
                    "purpose": purpose,
                    "run": entropy(_RUN_BYTES).hex(),
                    "begunMs": clock.now_ms(),
                    "topics": {name: _told(topic) for name, topic in topics.items()},
                }
                _begin(files, directory, said)
        except BaseException:
            lock.release()
            raise
        return cls(files, target, directory, said, lock)

    def partitions(self) -> list[Partition]:
        """All that are to be built."""
        return [(topic, number) for topic, each in self.topics.items() for number in each.partitions]

    def missing(self) -> list[Partition]:
        """Those that are not built yet."""
        names = set(self._files.names(self.directory))
        return [partition for partition in self.partitions() if str(DirectoryName(*partition)) not in names]

    def publish(self, clock: Clock, source: Sequence[Path]) -> dict[Partition, dict[str, Any]]:
        """Have the store at its place, whole; gives what is told of each partition.

        It belongs to the node of the cluster that the source belongs to, and knows of the same commits.
        """
        built = self._built()
        if self.directory != self.target:
            self._complete(clock, source, built)
            for name in self._files.names(self.target) if self._files.status(self.target) is not None else ():
                self._files.remove(self.target / name)  # what a crash has left of a store that was never made
            self._files.rename(self.directory, self.target)
            self._files.sync_directory(self.target.parent)
            self.directory = self.target
        self._clear()  # of attempts that began too late to be seen before
        self._files.remove(self.directory / _FINISHED_NAME)
        self._files.sync_directory(self.directory)
        return {partition: each.told for partition, each in built.items()}

    def close(self) -> None:
        """Let others begin."""
        if self._lock is not None:
            self._lock.release()

    def _built(self) -> dict[Partition, BuiltPartition]:
        """What is told of every partition; from now on that is kept in one file."""
        finished = _read(self._files, self.directory / _FINISHED_NAME)
        if finished is None:
            reports = [[*partition, self._report(partition)] for partition in self.partitions()]
            finished = {**self._said, "partitions": reports}
            replace_file(self._files, self.directory / _FINISHED_NAME, json.dumps(finished).encode())
        return {(topic, number): BuiltPartition(**report) for topic, number, report in finished["partitions"]}

    def _report(self, partition: Partition) -> dict[str, Any]:
        path = self.directory / str(DirectoryName(*partition)) / _REPORT_NAME
        report = _read(self._files, path)
        if report is None:
            raise BuildError("a partition was not built; run the job again", path=path.parent)
        return report

    def _complete(self, clock: Clock, source: Sequence[Path], built: Mapping[Partition, BuiltPartition]) -> None:
        """Make a store of the partitions, which was closed properly."""
        files, path = self._files, self.directory
        with suppress(FileNotFoundError):
            files.remove(path / _PURPOSE_NAME)  # so that no further attempt begins
        self._clear()
        for partition in built:
            directory = path / str(DirectoryName(*partition))
            with suppress(FileNotFoundError):
                files.remove(directory / _REPORT_NAME)
            files.sync_directory(directory)
        given = [each.properties for each in distinct_log_dirs(files, source) if each.properties is not None]
        cluster_id = next((each.cluster_id for each in given if each.cluster_id is not None), None)
        node_id = next((each.node_id for each in given if each.node_id is not None), 1)
        (log_dir,) = distinct_log_dirs(files, [path])
        write_store(clock, [log_dir], os.urandom, cluster_id=cluster_id, node_id=node_id)
        topics = MappingProxyType({name: topic.known for name, topic in self.topics.items()})
        assert log_dir.properties is not None
        settings = TopicSettings(is_made_here=True, topics=topics, cluster_id=log_dir.properties.cluster_id)
        write_topic_settings(files.directory(path), settings)
        applied = Ledger(files, source).current.applied
        if applied:
            Ledger(files, [path]).replace(Entries(1, applied))
        for checkpoint in OffsetCheckpoint:
            offsets = {partition: _offset(checkpoint, built[partition]) for partition in sorted(built)}
            log_dir.write_offsets(checkpoint, {key: value for key, value in offsets.items() if value is not None})
        log_dir.write_clean_marker()

    def _clear(self) -> None:
        """Remove what is no partition's."""
        for name in self._files.names(self.directory):
            if name.endswith(ATTEMPT_SUFFIX):
                with suppress(OSError):  # somebody may still write there
                    Removals(self._files).remove(self.directory / name)

    # Those that build partitions

    @classmethod
    def opened(cls, files: Files, target: Path, run: str) -> Self:
        """What somebody has begun to build for the place; raises `BuildError` if that is not this run any more."""
        directory = _directory(target)
        said = _read(files, directory / _PURPOSE_NAME)
        if said is None or said["run"] != run:
            raise BuildError("what was being made here is finished, or was begun anew", path=directory)
        return cls(files, target, directory, said, None)

    @contextmanager
    def attempt(self, partition: Partition, entropy: Callable[[int], bytes] = os.urandom) -> Iterator[Path]:
        """An empty directory to build a partition in; what is left in it goes unless `put` has taken it."""
        unique = entropy(_RUN_BYTES).hex()
        directory = self.directory / f"{DirectoryName(*partition)}.{unique}{ATTEMPT_SUFFIX}"
        self._files.make_directory(directory)
        try:
            yield directory
        finally:
            with suppress(OSError):  # then it goes with all the others
                if self._files.status(directory) is not None:
                    Removals(self._files).remove(directory)

    def put(self, directory: Path, partition: Partition, built: BuiltPartition) -> None:
        """Have the partition that was built in the directory of an attempt count, unless another one does already."""
        replace_file(self._files, directory / _REPORT_NAME, json.dumps(asdict(built)).encode())
        self.opened(self._files, self.target, self.run)
        try:
            self._files.rename(directory, self.directory / str(DirectoryName(*partition)))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            self._files.sync_directory(self.directory)


def _directory(target: Path) -> Path:
    return target.parent / f"{target.name}{BUILDING_SUFFIX}"


def _locked(files: Files, directory: Path) -> FileLock:
    try:
        return files.lock(directory / LOCK_NAME)
    except BlockingIOError:
        raise StoreLockedError("somebody is making a store here just now; wait for that", path=directory) from None


def _begun_before(files: Files, directory: Path, purpose: Mapping[str, object]) -> dict[str, Any] | None:
    """What an earlier run has said when it began; raises `BuildError` if that was for another purpose."""
    said = _read(files, directory / _FINISHED_NAME) or _read(files, directory / _PURPOSE_NAME)
    if said is not None and said["purpose"] != purpose:
        raise BuildError(
            "something else was being made here and was not finished: finish that, or remove this directory",
            path=directory,
        )
    return said


def _begin(files: Files, directory: Path, said: Mapping[str, Any]) -> None:
    """Begin a run, which has this to say; what an earlier one has left is gone."""
    for name in files.names(directory):
        if name != LOCK_NAME:
            Removals(files).remove(directory / name)
    replace_file(files, directory / _PURPOSE_NAME, json.dumps(said).encode())


def _read(files: Files, path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(files.read(path))
    except FileNotFoundError:
        return None
    return found


def _told(topic: BuiltTopic) -> dict[str, Any]:
    known = topic.known
    return {
        "topicId": None if known.topic_id is None else format_id(known.topic_id),
        "isMadeHere": known.is_made_here,
        "settings": dict(known.settings),
        "partitions": topic.partitions,
    }


def _topic(said: Mapping[str, Any]) -> BuiltTopic:
    topic_id = None if said["topicId"] is None else parse_id(said["topicId"])
    known = KnownTopic(topic_id, said["isMadeHere"], MappingProxyType(dict(said["settings"])))
    return BuiltTopic(known, tuple(said["partitions"]))


def _offset(checkpoint: OffsetCheckpoint, built: BuiltPartition) -> int | None:
    match checkpoint:
        case OffsetCheckpoint.LOG_START:
            return built.start_offset if built.start_offset > built.base_offset else None
        case OffsetCheckpoint.FIRST_DIRTY:
            return built.first_dirty_offset
        case _:
            return built.end_offset
