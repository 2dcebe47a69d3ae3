"""Committing staged records to a store: all of them, once, even after a crash.

Writing the intent into the ledger is the commit point. From then on the next process that opens the store for writing
completes the commit before any caller reaches its logs, and readers see none of it until the ledger says that it is
complete. Staged files that are not needed are removed when they are old.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager, suppress
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from storage.commit.applied import skipped
from storage.commit.ledger import Entries, Intent, Ledger, OffsetRange
from storage.commit.space import check_space
from storage.commit.staged_file import StagedFile, find_staged, is_staged_name
from storage.commit.withdrawal import StagedBatches, withdrawal_of
from storage.errors import StagingError, StorageError, StoreLockedError
from storage.log_dir.log_dir import distinct_log_dirs, lock_all
from storage.record.rewriting import assign_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from storage.clock import Clock
    from storage.commit.applied import TopicIds, Transaction
    from storage.commit.staged_file import StagedTopic
    from storage.commit.withdrawal import Withdrawal
    from storage.files import Directory
    from storage.log.log import Log
    from storage.log.view import LogView
    from storage.log_dir.checkpoints import Partition
    from storage.record.batch import RecordBatch
    from storage.topics.topics import Topics

STAGED_AGE_MS_MAX: Final = 7 * 24 * 3600 * 1000
"""The time after its last write for which a staged file is kept to be committed."""

_REPEAT: Final = "repeat the job that wrote it"
_PUT_BACK: Final = (
    "a commit that was interrupted cannot be completed without it; put it back as it was, or have `kafkafs recover "
    "STORE --withdraw-commit --apply` take the commit back, and repeat the job"
)

logger = logging.getLogger(__name__)


class Commits:
    """The commits of a store that is open for writing. They are applied one at a time; any thread may call.

    `open_log` opens a partition's log to write it.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        directories: Sequence[Directory],
        topics: Topics,
        open_log: Callable[[str, int], Log],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._directories = directories
        self._topics = topics
        self._open_log = open_log
        self._committing = RLock()
        self._entries = Entries()
        self._is_known = False  # whether `_entries` are the ledger's
        with suppress(StorageError, OSError):  # `finish` raises it
            self._know()

    def _know(self) -> None:
        """Read the ledger unless it was read; raises its errors. Without it no other log is kept from its readers."""
        if not self._is_known:
            self._entries = self._ledger.current
            self._is_known = True

    def commit(
        self, names: Sequence[str], transaction: Transaction | None = None, topics: Collection[str] = ()
    ) -> bool:
        """Append the staged files' batches, in their order; False if the transaction is in all their topics already.

        They are on disk when this returns. A `StagingError`, `DiskFullError` or any other error before the intent
        leaves none of them; after an error that follows the intent they will be there, as after a crash. Either way
        `discard` may be called. New topics that records were staged for are made. Topics that have the transaction, or
        a later one of its application, are left out, which is logged. One without records is noted for `topics`.
        """
        with self._committing:
            self.finish()
            with _advising(_REPEAT):
                staged = self._opened(names)
            meant = {*topics, *(topic for each in staged for topic in each.topics)}
            known: Collection[str] = ()
            if transaction is not None:
                found = self._entries.applied.known(transaction, self._topic_ids(meant))
                if found:
                    logger.warning("%s", skipped(transaction, found))
                known = found
            if known and len(known) == len(meant):
                self._remove(names)
                return False
            missing = self._check_topics(staged)
            check_space(staged, self._topics)
            for topic, partitions in missing.items():
                self._topics.create(topic, partitions)
            with _advising(_REPEAT):
                ranges = self._ranges(staged, known)
            self._say(self._entries.with_pending(Intent(transaction, tuple(names), ranges)))
            self.finish()
            if transaction is not None and not names and meant:
                noted = self._entries.applied.noted(transaction, self._topic_ids(meant))
                self._say(self._entries.with_versions(noted))
            self._remove_old()
            return True

    def has(self, transaction: Transaction, topic: str | None = None) -> bool:
        """Return True if a topic has the transaction, or a later one; without one, if all have that ever had it."""
        self._know()
        there = self._topic_ids(self._topics.inventory.topics)
        if topic is None:
            return self._entries.applied.has_all(transaction, there)
        return topic in there and bool(self._entries.applied.known(transaction, {topic: there[topic]}))

    def finish(self) -> None:
        """Complete the pending commit, if there is one; raises the error that prevents it."""
        with self._committing:
            self._know()
            pending = self._entries.pending
            if pending is None:
                return
            logs = self._logs(pending)
            with _advising(_PUT_BACK):
                staged = self._opened(pending.staged) if logs else []
                for partition, log in logs.items():
                    self._apply(partition, log, pending.ranges[partition], staged)
            for log in logs.values():
                log.flush()
            self._say(self._entries.with_applied())
            self._remove(pending.staged)

    def finish_for(self, partition: Partition) -> None:
        """Complete the commit that is pending in this partition, before any reader sees half of it."""
        pending = self._entries.pending
        if pending is not None and partition in pending.ranges:
            self.finish()

    def check_pending(self) -> None:
        """Raise a `StagingError` if the pending commit cannot be completed with its files as they are."""
        self._know()
        pending = self._entries.pending
        if pending is not None:
            with _advising(_PUT_BACK):
                staged = self._opened(pending.staged)
                for partition in pending.ranges:
                    for _ in _batches(staged, partition):
                        pass

    def withdraw(self) -> list[Withdrawal]:
        """Withdraw the pending commit, so that its job can be repeated as if it had never been.

        Batches that lie among others' records stay, and readers see them from then on. No reader has seen the rest.
        """
        with self._committing:
            self._know()
            pending = self._entries.pending
            if pending is None:
                return []
            found: list[Withdrawal] = []
            for partition, log in self._logs(pending).items():
                offset_range = pending.ranges[partition]
                staged = StagedBatches.read(self._directories, pending.staged, partition, offset_range)
                there = withdrawal_of(partition, offset_range, log.view, staged)
                if there is not None and not there.is_kept:
                    log.truncate_to(there.first_offset)
                found += [] if there is None else [there]
            self._say(self._entries.without_pending())
            self._remove(pending.staged)
            return found

    def finish_interrupted(self) -> None:
        """Finish a pending commit when the store is opened for writing. One that fails blocks no other log."""
        try:
            self.finish()
            self._settle()
        except (StorageError, OSError) as error:
            logger.error("a commit that was interrupted cannot be completed yet: %s", error)  # noqa: TRY400

    def _settle(self) -> None:
        """Note which topics are there, once, if an earlier kafkafs kept versions for the whole store."""
        applied = self._entries.applied
        if applied.earlier and applied.earlier_topics is None:
            self._say(self._entries.with_versions(applied.settled(self._topic_ids(self._topics.inventory.topics))))

    def remove_old(self) -> None:
        """Remove staged files that are old and not needed; those that cannot be removed are tried again next time."""
        with suppress(OSError, StorageError):
            self._remove_old()

    def _topic_ids(self, topics: Collection[str]) -> TopicIds:
        """Return the ids of those topics that are there."""
        return {topic: self._topics.topic_id(topic) for topic in topics if topic in self._topics.inventory.topics}

    # Before the intent

    def _opened(self, names: Collection[str]) -> list[StagedFile]:
        return [StagedFile(*find_staged(self._directories, name)) for name in names]

    def _check_topics(self, staged: Sequence[StagedFile]) -> Mapping[str, int]:
        """Return the missing topics, with their partitions.

        Raises `StagingError` where a topic is not the one that records were staged for.
        """
        missing: dict[str, int] = {}
        for each in staged:
            for name, topic in each.topics.items():
                self._check_topic(name, topic, each.path)
                if name not in self._topics.inventory.topics:
                    missing[name] = topic.partitions
        for each in staged:
            for topic_name, number in {run.partition for run in each.runs}:
                there = range(missing[topic_name]) if topic_name in missing else self._topics.partitions(topic_name)
                if number not in there:
                    raise StagingError(
                        f"records were staged for partition {number} of {topic_name}, which has none of that number "
                        "any more; repeat the job that staged them",
                        path=each.path,
                    )
        return missing

    def _check_topic(self, name: str, topic: StagedTopic, path: str) -> None:
        is_there = name in self._topics.inventory.topics
        if not topic.is_new and (not is_there or self._topics.topic_id(name) != topic.topic_id):
            raise StagingError(
                f"the topic {name} was deleted after records were staged for it; repeat the job that staged them",
                path=path,
            )

    def _ranges(self, staged: Sequence[StagedFile], known: Collection[str]) -> Mapping[Partition, OffsetRange]:
        """Return the offsets of all records, once the logs are on disk up to them and the batches are sound.

        The `known` topics are left out.
        """
        ranges = {}
        for partition in sorted({run.partition for each in staged for run in each.runs}):
            if partition[0] in known:
                continue
            log = self._open_log(*partition)
            log.flush()
            records, checksums = 0, []
            for batch in _batches(staged, partition):
                records += batch.count
                checksums.append(batch.crc)
            first_offset = log.view.end_offset
            topic_id = self._topics.topic_id(partition[0])
            ranges[partition] = OffsetRange(topic_id, first_offset, first_offset + records, tuple(checksums))
        return MappingProxyType(ranges)

    def _say(self, entries: Entries) -> None:
        try:
            self._ledger.replace(entries)
        except BaseException:
            self._is_known = False
            self._know()
            raise
        self._entries = entries

    # After the intent

    def _logs(self, pending: Intent) -> dict[Partition, Log]:
        """Return the logs of the partitions that are still there."""
        logs = {}
        for partition, offset_range in pending.ranges.items():
            topic, number = partition
            if number not in self._topics.inventory.topics.get(topic, {}):
                logger.warning("%s-%d is gone, and with it what was to be committed to it", *partition)
            elif self._topics.topic_id(topic) != offset_range.topic_id:
                logger.warning("%s is another topic than the one that was to be committed to", topic)
            else:
                logs[partition] = self._open_log(topic, number)
        return logs

    def _apply(self, partition: Partition, log: Log, offset_range: OffsetRange, staged: Sequence[StagedFile]) -> None:
        """Append the commit's batches that the partition lacks: all of them, unless a crash interrupted the commit."""
        view = log.view
        present = (
            _present(view, offset_range, _batches(staged, partition))
            if view.end_offset > offset_range.first_offset
            else 0
        )
        log.append_as_follower(_placed(_batches(staged, partition), log, skip=present))

    # Staged files

    def _remove(self, names: Collection[str]) -> None:
        """Remove staged files that are no longer needed; those that cannot be removed go when they are old."""
        for name in names:
            with suppress(OSError):
                _remove(self._directories, name)

    def _remove_old(self) -> None:
        oldest_ms = self._clock.now_ms() - STAGED_AGE_MS_MAX
        for directory in self._directories:
            names = {name for name in directory.names() if is_staged_name(name)}
            for name in sorted(names - self._ledger.names_of(names)):
                status = directory.status(name)
                if status is not None and status.modified_ms < oldest_ms:
                    logger.warning("%s was staged long ago and not committed; it is removed", directory.path_of(name))
                    directory.remove(name)


def discard(directories: Sequence[Directory], names: Collection[str]) -> None:
    """Remove staged files of a job that has failed, unless a commit needs them.

    While another process has the store open for writing nothing is removed: the files go when they are old. A process
    that has the store open itself must not call this.
    """
    with ExitStack() as unlocking:
        try:
            lock_all(distinct_log_dirs(directories), unlocking)
        except StoreLockedError:
            return
        give_up(directories, names)


def give_up(directories: Sequence[Directory], names: Collection[str]) -> None:
    """Remove staged files, unless a commit needs them, without a lock.

    Only that process may call this which alone would commit them, and will not.
    """
    for name in set(names) - Ledger(directories).names_of(names):
        with suppress(FileNotFoundError):
            _remove(directories, name)


def _remove(directories: Sequence[Directory], name: str) -> None:
    directory, leaf = find_staged(directories, name)
    if is_staged_name(leaf):
        directory.remove(leaf)


@contextmanager
def _advising(advice: str) -> Iterator[None]:
    """Add advice to each `StagingError`."""
    try:
        yield
    except StagingError as error:
        raise StagingError(f"{error.reason}; {advice}", path=error.path, position=error.position) from None


def _batches(staged: Sequence[StagedFile], partition: Partition) -> Iterator[RecordBatch]:
    for each in staged:
        yield from each.batches(partition)


def _present(view: LogView, offset_range: OffsetRange, batches: Iterator[RecordBatch]) -> int:
    """Return how many batches, from the first one on, are in the log, or were and have been deleted since."""
    places: dict[int, tuple[int, int]] = {}
    present, offset = 0, offset_range.first_offset
    for number, batch in enumerate(batches, start=1):
        places[offset] = (number, batch.crc)
        offset += batch.count
        if offset <= view.start_offset:
            present = number
    for stored in view.batches(min(max(offset_range.first_offset, view.start_offset), view.end_offset)):
        if stored.base_offset >= offset_range.end_offset:
            break
        number, crc = places.get(stored.base_offset, (0, 0))
        if number and crc == stored.crc:
            present = max(present, number)
    return present


def _placed(batches: Iterator[RecordBatch], log: Log, *, skip: int) -> Iterator[bytearray]:
    """Yield the batches in the form to append at the log's end, except the first ones."""
    offset = log.view.end_offset
    leader_epoch = log.epochs.writing_epoch
    for number, batch in enumerate(batches):
        if number >= skip:
            data = bytearray(batch.view(0, batch.size_bytes))
            assign_offset(data, base_offset=offset, leader_epoch=leader_epoch)
            offset += batch.count
            yield data
