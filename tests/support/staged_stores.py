"""A store in memory that records are staged for and committed to, and what its readers find in it."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final, TypedDict

from memory_logs import NOW_MS, StandingClock

from storage.commit.commits import discard
from storage.errors import DiskFullError
from storage.log.followed_log import UncommittedRange
from storage.record.batch import RecordBatch
from storage.store.log_opener import LogOpener
from storage.store.staging import Staging
from storage.store.store import Mode, Store
from storage.testing.faults import Cut, CutError, Effect
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from storage.commit.applied import Transaction
    from storage.record.compression import Codec
    from storage.store.staging import Staged

PATHS: Final = ("/a", "/b")
SETTINGS: Final = {"log.segment.bytes": "700", "log.index.size.max.bytes": "120", "log.index.interval.bytes": "100"}
"""Of the broker: segments that a few staged batches fill."""


class _Given(TypedDict):
    files: MemoryFiles
    clock: StandingClock
    open_log: LogOpener
    broker_settings: Mapping[str, str]


class StagedStore:
    """A store of two log directories whose processes come and go; each call is a process of its own."""

    def __init__(self, files: MemoryFiles | None = None, clock: StandingClock | None = None) -> None:
        self.files = MemoryFiles() if files is None else files
        self.clock = StandingClock() if clock is None else clock

    def create(self, topics: Mapping[str, int]) -> None:
        """Make the store, with these topics."""
        for path in PATHS:
            self.files.make_directory(path)
        self.files.sync_directory("/")
        with Store.create(PATHS, entropy=random.Random(0).randbytes, **self._given()) as store:
            for topic, partitions in topics.items():
                store.topics.create(topic, partitions)

    def open(self, mode: Mode = Mode.READ_WRITE) -> Store:
        """Open the store as the next process does."""
        entropy = random.Random(self.files.steps).randbytes
        return Store.open(PATHS, mode=mode, entropy=entropy, **self._given())

    def _given(self) -> _Given:
        opening = LogOpener(rng=random.Random(0))
        return {"files": self.files, "clock": self.clock, "open_log": opening, "broker_settings": SETTINGS}

    def staging(self, store: Store, *, seed: int = 0, new_topics: bool = False, codec: Codec | None = None) -> Staging:
        """An attempt to stage something; each has a seed of its own."""
        entropy = random.Random(f"staging {seed}").randbytes
        chosen = {} if codec is None else {"codec": codec}
        return Staging(store, self.clock, entropy=entropy, new_topics=new_topics, **chosen)

    def stage(self, rows: Sequence[tuple[str, int, bytes]], *, seed: int = 0, new_topics: bool = False) -> Staged:
        """Stage values for partitions, as a task does that succeeds."""
        with (
            self.open(Mode.READ_ONLY) as store,
            self.staging(store, seed=seed, new_topics=new_topics) as staging,
        ):
            for topic, partition, value in rows:
                staging.add(topic, partition, (NOW_MS, b"key", value, ()))
            staged = staging.finish()
        assert staged is not None
        return staged

    def commit(self, names: Sequence[str], transaction: Transaction | None = None, topics: Sequence[str] = ()) -> bool:
        """Commit what was staged, as a driver does."""
        with self.open() as store:
            return store.commits.commit(names, transaction, topics)

    def interrupt(
        self,
        names: Sequence[str],
        *,
        is_seen: Callable[[StagedStore], bool],
        transaction: Transaction | None = None,
        effect: Effect = Effect.DEATH,
    ) -> None:
        """Interrupt a commit at the first step after which a condition is true."""
        before = self.files
        for step in count():
            again = StagedStore(before.after_process_death(), self.clock)
            opened = again.open()
            again.files.cut = Cut(again.files.steps + step, effect)
            with suppress(CutError, OSError, DiskFullError):
                opened.commits.commit(names, transaction)
                raise AssertionError("nothing of that kind was seen")
            self.files = again.files.after_process_death()
            if is_seen(self):
                return

    def discard(self, names: Sequence[str]) -> None:
        """Remove what was staged, as a driver does whose job has failed."""
        discard([self.files.directory(path) for path in PATHS], names)

    def values(self, mode: Mode = Mode.READ_ONLY) -> dict[tuple[str, int], list[bytes | None]]:
        """The values of all records, as a process finds them that reads; their offsets have no gaps."""
        with self.open(mode) as store:
            return values_of(store)

    def bytes_of(self, topic: str, partition: int) -> list[bytes | None]:
        """The values in a partition's files, whether they are to be seen or not."""
        with self.open(Mode.READ_ONLY) as opened:
            view = opened.follow_partition(topic, partition, withheld=UncommittedRange).view
            return [record.value for batch in view.batches(0) for record in batch.records()]

    def staged_names(self) -> list[str]:
        """The staged files that are there."""
        return sorted(name for path in PATHS for name in self.files.names(path) if name.startswith("kafkafs-staged-"))


def values_of(store: Store) -> dict[tuple[str, int], list[bytes | None]]:
    """The values of all records of a store; their offsets have no gaps."""
    values = {}
    for partition in sorted(store.topics.inventory.partitions()):
        view = store.log(*partition).view
        batches = list(view.batches(view.start_offset))
        records = [record for batch in batches for record in batch.records()]
        assert all(isinstance(batch, RecordBatch) and batch.crc_matches for batch in batches)
        assert [record.offset for record in records] == list(range(view.start_offset, view.end_offset))
        values[partition] = [record.value for record in records]
    return values
