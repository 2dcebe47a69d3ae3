"""A plan carried out: log directories with which a broker starts, made whole or not at all.

Each partition is written in a directory that no broker takes for one, and gets its name when it is complete. The files
that make a store of the directories come last, and `meta.properties` last of all. A run that was interrupted is gone on
with by the next one that plans the same; another one is refused. The sources are only read.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkafs.revive.known import topic_config
from kafkafs.revive.outcome import largest_producer_id
from kafkafs.revive.properties import PROPERTIES_NAME, broker_properties
from kafkafs.revive.records import Target, bootstrap_records, producer_block
from storage.cluster import write_bootstrap
from storage.errors import BuildError, InvalidIdError, NotAStoreError, StoreLockedError
from storage.files import SNAPSHOT_BYTES_MAX, TEMPORARY_SUFFIX
from storage.ids import format_id, parse_id, random_id
from storage.log_dir import (
    CLEAN_MARKER_NAME,
    LOCK_NAME,
    LOST_AND_FOUND,
    META_PROPERTIES_NAME,
    REVIVING_NAME,
    DirectoryName,
    Doomed,
    MetaProperties,
    OffsetCheckpoint,
    are_vacant,
    clean_marker,
    make_directories,
    write_meta_properties,
    write_offsets,
)
from storage.replicas import write_empty_log, write_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from uuid import UUID

    from kafkafs.revive.plan import PartitionPlan, Plan
    from storage.clock import Clock
    from storage.files import Directory, FileLock, Files
    from storage.log_dir import Partition

    Advance = Callable[[str, int, int], None]

_ATTEMPT_NAME: Final = "kafkafs-partition.attempt"
_META_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Making:
    """How the node is made: where, as which node, from which settings of the old broker, and up to which time.

    What is made has no permission bits but some of `bits`.
    """

    log_dirs: tuple[Path, ...]
    node_id: int
    level: int
    links: bool
    server_properties: Mapping[str, str]
    until: Until | None = None
    bits: int = 0o777


class Until(NamedTuple):
    """A time up to which is revived, as it was given, and what that meant when it was resolved."""

    text: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class _State:
    """What a run has to know that goes on with another one: the ids that were made, and what a time meant."""

    purpose: str
    cluster_id: str
    directory_ids: tuple[UUID, ...]
    topic_ids: Mapping[str, UUID]
    until: Until | None = None

    def to_json(self) -> bytes:
        value = {
            "purpose": self.purpose,
            "clusterId": self.cluster_id,
            "directoryIds": [format_id(each) for each in self.directory_ids],
            "topicIds": {name: format_id(each) for name, each in self.topic_ids.items()},
            "until": self.until,
        }
        return json.dumps(value).encode()

    @classmethod
    def read(cls, first: Directory) -> _State:
        """Read the state of the run that was begun here; raises `BuildError` if the file is something else."""
        try:
            found: Any = json.loads(first.read_small(REVIVING_NAME, BuildError, SNAPSHOT_BYTES_MAX))
            until = found.get("until")  # which kafkafs did not write at first
            return cls(
                str(found["purpose"]),
                str(found["clusterId"]),
                tuple(map(parse_id, found["directoryIds"])),
                {name: parse_id(text) for name, text in found["topicIds"].items()},
                None if until is None else Until(str(until[0]), int(until[1])),
            )
        except (ValueError, LookupError, TypeError, AttributeError, InvalidIdError, RecursionError):
            reason = "this is not what kafkafs writes: remove the directory"
            raise BuildError(reason, path=first.path_of(REVIVING_NAME)) from None

    @classmethod
    def of(cls, plan: Plan, making: Making, purpose: str, entropy: Callable[[int], bytes]) -> _State:
        topic_ids = {topic.name: topic.topic_id or random_id(entropy) for topic in plan.topics}
        directory_ids = tuple(random_id(entropy) for _ in making.log_dirs)
        return cls(purpose, format_id(random_id(entropy)), directory_ids, topic_ids, making.until)


def revive(
    plan: Plan,
    making: Making,
    files: Files,
    clock: Clock,
    *,
    advance: Advance,
    entropy: Callable[[int], bytes] = os.urandom,
) -> None:
    """Make the log directories, or go on with a run that was interrupted.

    `advance` is given a name, the bytes that are copied, and those to be copied; an exception of it ends the run, which
    another one may go on with. Raises `NotAStoreError` if something else is there, `BuildError` if an earlier run had
    another plan, and `StoreLockedError` while another process makes a store there.
    """
    directories = [files.add_root(path).limited(making.bits, keeps_own=True) for path in making.log_dirs]
    run = _Run(plan, making, directories, clock, advance)
    run.make(files)
    with ExitStack() as stack:
        for directory in directories:
            stack.callback(_locked(directory).release)
        run.begin(entropy)
        if not run.is_complete():
            run.write_logs()
            run.complete(producer_block(plan, largest_producer_id(making.log_dirs, files, clock)))
        run.end()


def prepare_target(directories: Sequence[Directory]) -> bool:
    """Return True if the log directories are to be made, and False if an earlier run has begun with them.

    What a run left that was interrupted before that is removed. Raises `NotAStoreError` if something else is there.
    """
    for directory in directories:
        if directory.status(LOST_AND_FOUND) is not None:
            reason = f"no broker starts beside {LOST_AND_FOUND}: give a directory below this one"
            raise NotAStoreError(f"{reason}, such as {directory.path_of('kafka')}", path=directory)
    first = directories[0]
    if first.status(REVIVING_NAME) is not None:
        return False
    with suppress(FileNotFoundError):
        first.remove(f"{REVIVING_NAME}{TEMPORARY_SUFFIX}")
    if first.status(PROPERTIES_NAME) is not None:
        reason = f"a store was revived here before: start a broker with its {PROPERTIES_NAME}"
        raise NotAStoreError(f"{reason}, or give an empty directory", path=first)
    for directory in directories:
        if not are_vacant([directory]):
            raise NotAStoreError("a store can be revived into an empty directory only", path=directory)
    return True


def begun_until(first: Directory) -> Until | None:
    """Return the time up to which an unfinished run revives, None if there is no such run, or it revives all."""
    try:
        return _State.read(first).until
    except (BuildError, OSError):
        return None  # which is said when the run begins


class _Run:
    """One run of `revive`."""

    def __init__(
        self, plan: Plan, making: Making, directories: Sequence[Directory], clock: Clock, advance: Advance
    ) -> None:
        self._plan = plan
        self._making = making
        self._directories = directories
        self._clock = clock
        self._advance = advance
        self._places = _places(plan.partitions, len(directories))
        self._purpose = _purpose(plan, making, self._places)
        self._state: _State | None = None

    def make(self, files: Files) -> None:
        """Make the directories, unless an earlier run has made them."""
        if prepare_target(self._directories):
            make_directories(files, self._directories)

    def begin(self, entropy: Callable[[int], bytes]) -> None:
        """Begin, or go on with an earlier run; raises `BuildError` if that had another plan."""
        first = self._directories[0]
        if first.status(REVIVING_NAME) is None:
            first.replace(REVIVING_NAME, _State.of(self._plan, self._making, self._purpose, entropy).to_json())
        self._state = self._loaded(first)

    def _loaded(self, first: Directory) -> _State:
        state = _State.read(first)
        if state.purpose != self._purpose:
            raise BuildError(
                "another revival was begun here and not finished, of other disks, of disks that have changed since, or "
                "with other options: finish that, or remove this directory",
                path=first,
            )
        return state

    @property
    def state(self) -> _State:
        """The ids of the run, once it has begun."""
        assert self._state is not None
        return self._state

    def is_complete(self) -> bool:
        """True if an earlier run has done everything, and perhaps a broker has been here since."""
        return self._directories[0].status(META_PROPERTIES_NAME) is not None

    def write_logs(self) -> None:
        """Write every partition that is not there yet."""
        for directory in self._directories:
            with suppress(FileNotFoundError):
                Doomed(directory, _ATTEMPT_NAME).remove()
        done_bytes, total_bytes = 0, self._plan.size_bytes
        for topic in self._plan.topics:
            config = topic_config(topic.known.settings)
            for partition in topic.partitions:
                directory = self._directories[self._places[partition.partition]]
                name = str(DirectoryName(*partition.partition))
                copied = done_bytes

                def tell(more_bytes: int, name: str = name) -> None:
                    nonlocal copied
                    copied += more_bytes
                    self._advance(name, copied, total_bytes)

                self._advance(name, done_bytes, total_bytes)
                if directory.status(name) is None:
                    attempt = directory.at(_ATTEMPT_NAME)
                    attempt.make()
                    topic_id = self.state.topic_ids[topic.name]
                    if partition.composition is None:
                        write_empty_log(attempt, config, topic_id, self._clock)
                    else:
                        links = self._making.links
                        write_log(partition.composition, attempt, config, topic_id, self._clock, links=links, tell=tell)
                    directory.rename(_ATTEMPT_NAME, name)
                    directory.sync()
                done_bytes += partition.size_bytes

    def complete(self, next_producer_id: int) -> None:
        """Make a properly closed store of the partitions, with which a broker starts."""
        making, state = self._making, self.state
        for number, directory in enumerate(self._directories):
            here = [each for each in self._plan.partitions if self._places[each.partition] == number]
            for checkpoint in OffsetCheckpoint:
                write_offsets(directory, checkpoint, _offsets(here, checkpoint))
            directory.replace(CLEAN_MARKER_NAME, clean_marker())
        target = Target(making.node_id, making.level, state.directory_ids)
        records = bootstrap_records(self._plan, target, state.topic_ids, self._places, next_producer_id)
        first = self._directories[0]
        write_bootstrap(first, list(records), self._clock.now_ms())
        properties = broker_properties(self._plan, making.log_dirs, making.node_id, making.server_properties)
        first.replace(PROPERTIES_NAME, properties)
        for directory, directory_id in reversed(list(zip(self._directories, state.directory_ids, strict=True))):
            found = MetaProperties(_META_VERSION, state.cluster_id, making.node_id, directory_id)
            write_meta_properties(directory, found, self._clock.now_ms())

    def end(self) -> None:
        """Forget the run."""
        first = self._directories[0]
        first.remove(REVIVING_NAME)
        first.sync()


def _locked(directory: Directory) -> FileLock:
    try:
        return directory.lock(LOCK_NAME)
    except BlockingIOError:
        raise StoreLockedError("another process is making a store here; wait until it ends", path=directory) from None


def _places(partitions: Iterable[PartitionPlan], count: int) -> dict[Partition, int]:
    """Return the number of the log directory for each partition, the largest first to the emptiest."""
    filled = [(0, 0)] * count
    places = {}
    for each in sorted(partitions, key=lambda each: (-each.size_bytes, each.partition)):
        place = min(range(count), key=lambda number: filled[number])
        places[each.partition] = place
        filled[place] = filled[place][0] + each.size_bytes, filled[place][1] + 1
    return places


def _purpose(plan: Plan, making: Making, places: Mapping[Partition, int]) -> str:
    """Return a digest of everything that decides what is written."""
    logs = [
        [
            *each.partition,
            places[each.partition],
            each.start_offset,
            each.end_offset,
            each.leader_epoch,
            [
                [segment.base_offset, [[str(part.directory), *part[1:]] for part in segment.ranges]]
                for segment in (() if each.composition is None else each.composition.segments)
            ],
        ]
        for each in plan.partitions
    ]
    topics = [
        [topic.name, None if topic.topic_id is None else format_id(topic.topic_id), sorted(topic.held.settings.items())]
        for topic in plan.topics
    ]
    how = [
        list(map(str, making.log_dirs)),
        making.node_id,
        making.level,
        making.links,
        sorted(making.server_properties.items()),
    ]
    return hashlib.sha256(json.dumps([logs, topics, how]).encode()).hexdigest()


def _offsets(partitions: Iterable[PartitionPlan], checkpoint: OffsetCheckpoint) -> dict[Partition, int]:
    """Return what a checkpoint says of these partitions, all of which are on disk and replicated."""
    match checkpoint:
        case OffsetCheckpoint.FIRST_DIRTY:
            return {each.partition: each.first_dirty for each in partitions if each.first_dirty is not None}
        case OffsetCheckpoint.LOG_START:
            return {each.partition: each.start_offset for each in partitions if each.start_offset}
        case _:
            return {each.partition: each.end_offset for each in partitions}
