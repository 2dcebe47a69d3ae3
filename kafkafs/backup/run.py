"""A run: every partition of a store taken, one after the other, and put in place together.

Internal topics are taken first and the cluster's metadata last: what a group has committed or the cluster knows is then
in the copies, as far as the high watermarks allow. Each partition is a prefix of what it was at one moment; different
partitions are of different moments. A run that dies leaves its files to the next one, which shares them.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkafs.backup.errors import BackupError, ChangedError, UnreadableSourceError
from kafkafs.backup.making import ATTEMPTS_MAX, RunMaking, RunReport, in_order, name_of, unreadable
from kafkafs.backup.manifest import ManifestWriter
from kafkafs.backup.missing import empty_log_dirs, missing_log_dirs
from kafkafs.backup.partition_plan import plan_partition
from kafkafs.backup.places import BackupPlace, check_apart
from kafkafs.backup.top_files import owner_of
from storage.errors import DuplicatePartitionError, UnknownPartitionError, is_full_disk
from storage.files import absolute_path, copied_bits
from storage.log_dir import check_revived
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkafs.backup.making import TakenPartition
    from kafkafs.backup.manifest import Manifest
    from kafkafs.backup.partition_plan import PartitionPlan
    from storage.clock import Clock
    from storage.files import Directory, Files


_FULL: Final = "the disk of the backups is full: remove old runs, and run it again; it goes on from what is there"


class Backup:
    """A backup of the store in these log directories into DEST. Nothing of the store changes, and no lock is taken.

    With `to_end` each log is taken up to its end, whether or not that is replicated; with `copies_all` no file is
    shared with an earlier run. A store that lacks a log directory is refused, unless the caller `accepts_missing` ones.
    `announce` is called before each partition with its name, its number and their count.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        paths: Sequence[Path],
        dest: Path,
        *,
        broker_settings: Mapping[str, str],
        to_end: bool = False,
        copies_all: bool = False,
        accepts_missing: bool = False,
        announce: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        self._files = files
        self._clock = clock
        self._paths = paths
        self._dest = dest
        self._broker_settings = broker_settings
        self._to_end = to_end
        self._copies_all = copies_all
        self._accepts_missing = accepts_missing
        self._announce = announce

    def plan(self, fail: Callable[[str], None]) -> Iterator[PartitionPlan]:
        """Yield what a run would take of each partition; nothing is made, DEST included.

        `fail` is called with a sentence about each partition that cannot be read.
        """
        with self._opened() as store:
            earlier, _ = self._looked_at(store)
            partitions = in_order(store.topics.inventory.partitions())
            for number, partition in enumerate(partitions, 1):
                self._announce(name_of(partition), number, len(partitions))
                try:
                    plan = plan_partition(store, partition, earlier, self._clock.now_ms(), to_end=self._to_end)
                except (ChangedError, UnknownPartitionError):  # it comes and goes
                    continue
                except UnreadableSourceError as error:
                    fail(unreadable(partition, error))
                else:
                    yield plan

    def run(self, tell: Callable[[TakenPartition], None]) -> RunReport:
        """Make a run; `tell` is called for each partition that is in it. Raises `BackupError` and what opening raises.

        After an error, or an interruption, the next run goes on from what is there.
        """
        with ExitStack() as stack:
            store = stack.enter_context(self._opened())
            _, missing = self._looked_at(store)
            stack.enter_context(_saying_what_to_do(self._dest))
            place = stack.enter_context(BackupPlace.open(self._files, self._dest, owner_of(store)))
            place.settle()
            place.remove_incomplete()
            earlier = [] if self._copies_all else place.usable()
            bits = copied_bits(_directories(store))
            name, directory = place.begin(self._clock, bits)
            report = RunReport(name, Path(place.run(name).path), changes=missing)
            writer = ManifestWriter(directory, self._head(store, name))
            stack.callback(writer.close)
            making = RunMaking(self._clock, store, directory, earlier, writer, report, bits=bits, to_end=self._to_end)
            making.take_all(self._announce, tell)
            report.failures += [each for each in empty_log_dirs(store) if each not in missing]
            making.finish()
            place.complete(name, directory, is_latest=not report.failures)
            place.remove_unfinished()
            return report

    def _looked_at(self, store: Store) -> tuple[list[Manifest], list[str]]:
        """Return the runs whose files a run can share, and sentences about missing log directories that are accepted.

        Nothing is made. Raises `BackupError` if a run of this store cannot be made there, or would lack something.
        """
        for log_dir in store.log_dirs:
            check_revived(log_dir.directory)
        check_apart(self._files, store.log_dirs, self._dest)
        earlier = BackupPlace.look(self._files, self._dest, owner_of(store))
        missing = missing_log_dirs(store, earlier)
        if missing and not self._accepts_missing:
            found = "; ".join(missing)
            raise BackupError(f"{found}: name every log directory, mounted, or go on without with --accept-missing")
        return [] if self._copies_all else earlier, missing

    def _opened(self) -> Store:
        """Open the store. A partition that a broker is moving may be in two places for a moment."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                return Store.open(
                    self._paths,
                    mode=Mode.READ_ONLY,
                    files=self._files,
                    clock=self._clock,
                    broker_settings=self._broker_settings,
                )
            except DuplicatePartitionError:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
        raise AssertionError

    def _head(self, store: Store, name: str) -> dict[str, object]:
        owner = owner_of(store)
        return {
            "run": name,
            "store": [absolute_path(path) for path in self._paths],
            "clusterId": None if owner is None else owner.cluster_id,
            "nodeId": None if owner is None else owner.node_id,
            "toEnd": self._to_end,
        }


def _directories(store: Store) -> Iterator[Directory]:
    """Yield all directories of which a run may tell something."""
    inventory = store.topics.inventory
    yield from (log_dir.directory for log_dir in store.log_dirs)
    yield from (each for key in inventory.partitions() if (each := inventory.directory(*key)) is not None)


@contextmanager
def _saying_what_to_do(dest: Path) -> Iterator[None]:
    """Say what to do about a full disk, which is the one of the backups: nothing else is written."""
    try:
        yield
    except OSError as error:
        if is_full_disk(error):
            raise BackupError(_FULL, path=dest) from error
        raise
