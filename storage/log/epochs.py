"""Leader epochs: the offset at which each leader of a partition began to write.

`LeaderEpochs` keeps `leader-epoch-checkpoint`, which is always at least as new as the log: the entry of an epoch is
on disk before its first batch is written. Recovery trims it to a log that lost its end or its beginning.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.checkpoint_text import read_checkpoint_data, write_checkpoint
from storage.log.epoch_entries import EpochEntries, EpochStart
from storage.record.batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.files import Directory
    from storage.record.reading import Batch

EPOCHS_NAME: Final = "leader-epoch-checkpoint"
_FIRST_EPOCH: Final = 0
_epoch: Final = attrgetter("epoch")
_offset: Final = attrgetter("offset")
_TUPLE_MAX: Final = 1000
"""More epochs are kept as numbers alone, from each of which an entry is made when it is asked for."""


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last batch."""

    epoch: int
    offset: int


def may_begin_at(entries: Sequence[EpochStart], offset: int) -> bool:
    """True if a leader that followed another one began there. A partition's very first leader follows none."""
    index = bisect_left(entries, offset, key=_offset)
    return index < len(entries) and entries[index].offset == offset and entries[index] != (0, 0)


class LeaderEpochs:
    """The epochs of a partition's log, both epochs and offsets ascending.

    Every change is on disk before it is visible. `entries` is never changed in place, so readers may read it while one
    thread writes. `contradicted` is how many lines of the file were passed over when it was loaded, because another
    contradicts them.
    """

    def __init__(self, directory: Directory, entries: Sequence[EpochStart] = (), contradicted: int = 0) -> None:
        self.entries = entries
        self.contradicted = contradicted
        self._directory = directory

    @classmethod
    def load(cls, directory: Directory) -> Self:
        """Load the file's epochs, without those that another line contradicts; none if there is no file.

        Raises `CorruptCheckpointError`; that is a `NulFilledCheckpointError` if a loss of power wiped the file.
        """
        entries = EpochEntries(read_checkpoint_data(directory, EPOCHS_NAME), directory.path_of(EPOCHS_NAME))
        is_short = len(entries) <= _TUPLE_MAX
        return cls(directory, tuple(entries) if is_short else entries, entries.contradicted)

    @classmethod
    def make(cls, directory: Directory, starts: Iterable[EpochStart]) -> Self:
        """Replace the file's epochs by these."""
        entries = _with((), starts)
        write_checkpoint(directory, EPOCHS_NAME, entries)
        return cls(directory, entries)

    @property
    def latest_epoch(self) -> int | None:
        """The epoch of the last leader that wrote; None if none is known."""
        return self.entries[-1].epoch if self.entries else None

    @property
    def writing_epoch(self) -> int:
        """The epoch to append in without a broker: that of the last leader, as if it still led, or else the first.

        So no broker finds an epoch that it does not know.
        """
        return self.entries[-1].epoch if self.entries else _FIRST_EPOCH

    def assign(self, epoch: int, offset: int) -> None:
        """Record that the epoch begins at the offset, and drop entries that contradict it. Ignores -1, no epoch."""
        if epoch >= 0:
            self.assign_all([EpochStart(epoch, offset)])

    def assign_all(self, starts: Iterable[EpochStart]) -> None:
        """Record where epochs begin, one after the other, and drop entries that contradict them, in one change."""
        self._replace(_with(self.entries, starts))

    def assign_from(self, batches: Sequence[Batch]) -> None:
        """Record the epochs of batches about to be written. A batch of an old version has none, and clears all."""
        for batch in batches:
            if not isinstance(batch, RecordBatch):
                self.clear()
            elif batch.leader_epoch != self.latest_epoch:
                self.assign(batch.leader_epoch, batch.base_offset)

    def truncate_from_start(self, offset: int) -> None:
        """Trim the epochs to a log that begins at the offset: the epoch in force there begins there too."""
        index = bisect_right(self.entries, offset, key=_offset)
        if index and (index > 1 or self.entries[0].offset < offset):
            in_force = self.entries[index - 1]
            self._replace((EpochStart(in_force.epoch, offset), *self.entries[index:]))

    def truncate_from_end(self, offset: int) -> None:
        """Trim the epochs to a log that ends before the offset."""
        index = bisect_left(self.entries, offset, key=_offset)
        if index < len(self.entries):
            self._replace(tuple(self.entries[:index]))

    def clear(self) -> None:
        """Remove all epochs, as for a log to which batches without epochs are written."""
        self._replace(())

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd | None:
        """Return where the last epoch up to this one ends: at the next epoch's start, or at the log's end.

        An epoch before all known ones ends where they begin. None for one after all known ones.
        """
        if epoch < 0 or not self.entries or epoch > self.entries[-1].epoch:
            return None
        index = bisect_right(self.entries, epoch, key=_epoch)
        found = self.entries[index - 1].epoch if index else epoch
        return EpochEnd(found, self.entries[index].offset if index < len(self.entries) else log_end_offset)

    def _replace(self, entries: Sequence[EpochStart]) -> None:
        if entries is not self.entries and entries != self.entries:
            write_checkpoint(self._directory, EPOCHS_NAME, entries)
            self.entries = entries


def _with(entries: Sequence[EpochStart], starts: Iterable[EpochStart]) -> Sequence[EpochStart]:
    """Return the entries with each start after those that it does not contradict, if it begins another epoch.

    If none does, that is the very same sequence: of millions of entries no copy is made.
    """
    kept = len(entries)
    added: list[EpochStart] = []
    is_changed = False
    for start in starts:
        last = _last(entries, kept, added)
        if last is not None and last.epoch == start.epoch and last.offset <= start.offset:
            continue
        while last is not None and (last.epoch >= start.epoch or last.offset >= start.offset):
            if added:
                added.pop()
            else:
                kept -= 1
            last = _last(entries, kept, added)
        added.append(start)
        is_changed = True
    return (*entries[:kept], *added) if is_changed else entries


def _last(entries: Sequence[EpochStart], kept: int, added: Sequence[EpochStart]) -> EpochStart | None:
    if added:
        return added[-1]
    return entries[kept - 1] if kept else None
