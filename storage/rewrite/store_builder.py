"""A store built partition by partition, by many processes, that appears whole at its target.

It is built in a directory beside the target, which is renamed at the end. Each attempt at a partition works in a
directory of its own, and the first complete one counts, so that failed, repeated and late attempts leave nothing. One
process begins and publishes, and holds a lock meanwhile. If it dies, the next one with the same purpose continues with
the partitions that are complete.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import contextmanager, suppress
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from storage.commit.ledger import Entries, Ledger
from storage.errors import BuildError, InvalidIdError, StoreLockedError
from storage.files import SNAPSHOT_BYTES_MAX
from storage.log.partition_metadata import read_topic_id
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.creation import check_vacant, make_directories, write_store
from storage.log_dir.log_dir import distinct_log_dirs
from storage.log_dir.names import DirectoryName, DirectoryState, parse_directory_name
from storage.log_dir.recognition import LOCK_NAME
from storage.log_dir.removals import Doomed
from storage.log_dir.settings_file import SettingsFileContents, write_settings_file
from storage.rewrite.topics import BuiltPartition, BuiltTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from storage.clock import Clock
    from storage.files import Directory, FileLock, Files
    from storage.log_dir.checkpoints import Partition

BUILDING_SUFFIX: Final = ".kafkafs-building"

ATTEMPT_SUFFIX: Final = ".attempt"
"""The suffix of directories that are removed when the store is published."""

_PURPOSE_NAME: Final = "kafkafs-building.json"
_FINISHED_NAME: Final = "kafkafs-built.json"
_REPORT_NAME: Final = "kafkafs-report.json"
_RUN_BYTES: Final = 8


class StoreBuilder:
    """Builds a store. The publishing process uses `begin`, the processes that build partitions use `opened`.

    `begun_ms` is when the run began; a process that continues the run has the same.
    """

    def __init__(
        self, files: Files, target: Path, directory: Directory, state: Mapping[str, Any], lock: FileLock | None
    ) -> None:
        self.target = target
        self.directory = directory
        try:
            self.run = str(state["run"])
            self.begun_ms = int(state["begunMs"])
            self.topics = MappingProxyType({name: BuiltTopic.from_json(each) for name, each in state["topics"].items()})
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError, InvalidIdError):
            raise _unreadable(directory.path_of(_PURPOSE_NAME)) from None
        self._files = files
        self._state = state
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
        """Begin to build a store of these topics, or continue an earlier run with the same purpose.

        Without `resumes` an earlier run is discarded. Raises `NotAStoreError` if no store can be made at the target,
        `BuildError` if a run with another purpose is there, and `StoreLockedError` while another process builds.
        """
        purpose = json.loads(json.dumps(purpose))
        published = _read(files.directory(target), _FINISHED_NAME)
        if published is not None and published.get("purpose") == purpose:
            directory = files.directory(target)
            return cls(files, target, directory, published, _locked(directory))
        check_vacant([files.directory(target)], is_replaced=True)
        directory = _directory(files, target)
        if directory.own_status() is None:
            make_directories(files, [directory])
        lock = _locked(directory)
        try:
            state = _begun_before(directory, purpose)
            if state is None or not resumes:
                state = {
                    "purpose": purpose,
                    "run": entropy(_RUN_BYTES).hex(),
                    "begunMs": clock.now_ms(),
                    "topics": {name: topic.to_json() for name, topic in topics.items()},
                }
                _begin(directory, state)
            else:
                _clear(directory)
        except BaseException:
            lock.release()
            raise
        return cls(files, target, directory, state, lock)

    def partitions(self) -> list[Partition]:
        """Return all partitions of the store."""
        return [(topic, number) for topic, each in self.topics.items() for number in each.partitions]

    def missing(self) -> list[Partition]:
        """Return the partitions that are not built yet."""
        names = set(self.directory.names())
        return [partition for partition in self.partitions() if str(DirectoryName(*partition)) not in names]

    def publish(self, clock: Clock, source: Sequence[Path]) -> dict[Partition, dict[str, Any]]:
        """Put the whole store at its target and return the stats of each partition.

        The store belongs to the node and cluster of the source, and has the source's commits.
        """
        built = self._built()
        if self.directory != self._files.directory(self.target):
            self._complete(clock, [self._files.directory(path) for path in source], built)
            self._take_place()
        _clear(self.directory)  # late attempts that `_complete` could not see
        self.directory.remove(_FINISHED_NAME)
        self.directory.sync()
        return {partition: each.stats for partition, each in built.items()}

    def _take_place(self) -> None:
        """Rename the store to its target."""
        replaced = self._files.directory(self.target)
        for name in replaced.names() if replaced.own_status() is not None else ():
            replaced.remove(name)  # a crash while a store was made left these
        parent = self._files.directory(self.target.parent)
        parent.rename(self.directory.name, self.target.name)
        parent.sync()
        self.directory = self._files.directory(self.target)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()

    def _built(self) -> dict[Partition, BuiltPartition]:
        """Return the reports of all partitions, after moving them into one file."""
        finished = _read(self.directory, _FINISHED_NAME)
        if finished is None:
            reports = [[*partition, self._report(partition)] for partition in self.partitions()]
            finished = {**self._state, "partitions": reports}
            self.directory.replace(_FINISHED_NAME, json.dumps(finished).encode())
        return {(topic, number): BuiltPartition(**report) for topic, number, report in finished["partitions"]}

    def _report(self, partition: Partition) -> dict[str, Any]:
        directory = self._partition_dir(partition)
        report = _read(directory, _REPORT_NAME)
        if report is None:
            raise BuildError("a partition was not built; run the job again", path=directory)
        return report

    def _complete(self, clock: Clock, source: Sequence[Directory], built: Mapping[Partition, BuiltPartition]) -> None:
        """Make a properly closed store of the partitions."""
        with suppress(FileNotFoundError):
            self.directory.remove(_PURPOSE_NAME)  # so that no further attempt begins
        _clear(self.directory)
        for partition in built:
            directory = self._partition_dir(partition)
            with suppress(FileNotFoundError):
                directory.remove(_REPORT_NAME)
            directory.sync()
        given = [each.properties for each in distinct_log_dirs(source) if each.properties is not None]
        cluster_id = next((each.cluster_id for each in given if each.cluster_id is not None), None)
        node_id = next((each.node_id for each in given if each.node_id is not None), 1)
        (log_dir,) = distinct_log_dirs([self.directory])
        write_store(clock, [log_dir], os.urandom, cluster_id=cluster_id, node_id=node_id)
        topics = MappingProxyType({name: topic.known for name, topic in self.topics.items()})
        assert log_dir.properties is not None
        settings = SettingsFileContents(is_made_here=True, topics=topics, cluster_id=log_dir.properties.cluster_id)
        write_settings_file(self.directory, settings)
        applied = Ledger(source).current.applied
        if applied:
            new_ids = {name: topic.known.topic_id for name, topic in self.topics.items()}
            Ledger([self.directory]).replace(Entries(1, applied.carried(_topic_ids(source), new_ids)))
        for checkpoint in OffsetCheckpoint:
            offsets = {partition: built[partition].offset(checkpoint) for partition in sorted(built)}
            log_dir.write_offsets(checkpoint, {key: value for key, value in offsets.items() if value is not None})
        log_dir.write_clean_marker()

    def _partition_dir(self, partition: Partition) -> Directory:
        return self.directory.at(str(DirectoryName(*partition)))

    # The processes that build partitions

    @classmethod
    def opened(cls, files: Files, target: Path, run: str) -> Self:
        """Join a run that another process has begun; raises `BuildError` if it has ended or was begun again."""
        directory = _directory(files, target)
        state = _read(directory, _PURPOSE_NAME)
        if state is None or state.get("run") != run:
            raise BuildError("the store that was being made here is finished, or was begun again", path=directory)
        return cls(files, target, directory, state, None)

    @contextmanager
    def attempt(self, partition: Partition, entropy: Callable[[int], bytes] = os.urandom) -> Iterator[Directory]:
        """Yield an empty directory to build a partition in. It is removed at the end unless `put` took it."""
        unique = entropy(_RUN_BYTES).hex()
        directory = self.directory.at(f"{DirectoryName(*partition)}.{unique}{ATTEMPT_SUFFIX}")
        directory.make()
        try:
            yield directory
        finally:
            with suppress(OSError):  # then `publish` removes it
                Doomed(self.directory, directory.name).remove()

    @contextmanager
    def piece(self, partition: Partition, entropy: Callable[[int], bytes] = os.urandom) -> Iterator[Directory]:
        """Yield an empty directory to build segments of a partition in. It stays for `claim`, unless the block fails.

        What is not claimed is removed when the store is published, or when a later process continues the run.
        """
        directory = self.directory.at(f"{DirectoryName(*partition)}.{entropy(_RUN_BYTES).hex()}{ATTEMPT_SUFFIX}")
        directory.make()
        try:
            yield directory
        except BaseException:
            with suppress(OSError):
                Doomed(self.directory, directory.name).remove()
            raise

    def claim(self, name: str, entropy: Callable[[int], bytes] = os.urandom) -> Directory | None:
        """Return the directory of a piece, which no other attempt gets any more; None if it is gone."""
        claimed = f"{name.removesuffix(ATTEMPT_SUFFIX)}.{entropy(_RUN_BYTES).hex()}{ATTEMPT_SUFFIX}"
        try:
            self.directory.rename(name, claimed)
        except FileNotFoundError:
            return None
        return self.directory.at(claimed)

    def put(self, directory: Directory, partition: Partition, built: BuiltPartition) -> None:
        """Take a partition from the directory of the attempt that built it, unless another attempt was first."""
        directory.replace(_REPORT_NAME, json.dumps(asdict(built)).encode())
        self.opened(self._files, self.target, self.run)
        try:
            self.directory.rename(directory.name, str(DirectoryName(*partition)))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            self.directory.sync()


def _directory(files: Files, target: Path) -> Directory:
    return files.directory(target.parent / f"{target.name}{BUILDING_SUFFIX}")


def _locked(directory: Directory) -> FileLock:
    try:
        return directory.lock(LOCK_NAME)
    except BlockingIOError:
        raise StoreLockedError("another process is making a store here; wait until it ends", path=directory) from None


def _begun_before(directory: Directory, purpose: Mapping[str, object]) -> dict[str, Any] | None:
    """Return the state of an earlier run; raises `BuildError` if it has another purpose."""
    state = _read(directory, _FINISHED_NAME) or _read(directory, _PURPOSE_NAME)
    if state is not None and state.get("purpose") != purpose:
        raise BuildError(
            "something else was being made here and was not finished: finish that, or remove this directory",
            path=directory,
        )
    return state


def _begin(directory: Directory, state: Mapping[str, Any]) -> None:
    """Begin a run with this state; remove the leftovers of an earlier one."""
    for name in directory.names():
        if name != LOCK_NAME:
            with suppress(FileNotFoundError):
                Doomed(directory, name).remove()
    directory.replace(_PURPOSE_NAME, json.dumps(state).encode())


def _clear(directory: Directory) -> None:
    """Remove the directories of attempts."""
    for name in directory.names():
        if name.endswith(ATTEMPT_SUFFIX):
            with suppress(OSError):  # a late attempt may still write there
                Doomed(directory, name).remove()


def _read(directory: Directory, name: str) -> dict[str, Any] | None:
    try:
        found: object = json.loads(directory.read_small(name, BuildError, SNAPSHOT_BYTES_MAX))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _unreadable(directory.path_of(name))
    return found


def _topic_ids(log_dirs: Iterable[Directory]) -> dict[str, UUID | None]:
    """Return the ids of the topics that are in some log directories, None for a topic that has none."""
    found: dict[str, UUID | None] = {}
    for log_dir in log_dirs:
        for text in log_dir.names():
            name = parse_directory_name(text)
            if name is not None and name.state is DirectoryState.CURRENT and found.get(name.topic) is None:
                found[name.topic] = read_topic_id(log_dir.at(text))
    return found


def _unreadable(path: str) -> BuildError:
    return BuildError("the file of an earlier run is not what kafkafs writes: remove its directory", path=path)
