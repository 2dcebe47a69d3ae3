"""Where two replicas have a history of their own: leader epochs do not tell of all of it.

A leader that dies and comes back may lead in the same epoch again, and old message sets have no epochs. So the batches
themselves are compared, by their offsets and checksums: first in brief, and then those between the first and the last
difference, which are read once more. Cleaners rewrite batches on every replica at another time. Where one may have
done so, the records that both batches still have are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import StorageError
from storage.record.batch import RecordBatch
from storage.record.layout import TimestampType
from storage.replicas.digests import OffsetRange, differing, identity
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage.record.kernel.decode import Record
    from storage.record.reading import Batch
    from storage.replicas.scan import Replica

_PARTINGS_MAX: Final = 100


class Parting(NamedTuple):
    """Offsets that the other replica has in batches which contradict those of the first.

    The last batch before them that both have ends at `after`, and the first one after them begins at `before`.
    """

    offsets: OffsetRange
    after: int
    before: int


def partings(replica: Replica, other: Replica, end: int) -> tuple[Parting, ...]:
    """Return where the batches of the other replica contradict those of the first, up to an offset."""
    begin = max(replica.base_offset, other.base_offset)
    within = differing(replica.digests, other.digests, OffsetRange(begin, end))
    if within is None:
        return ()
    walk = _Walk(within)
    walk.compare(_batches(replica, within), _batches(other, within))
    return tuple(walk.found)


def merged(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the ranges in order, with those that touch joined."""
    found: list[OffsetRange] = []
    for each in sorted(ranges):
        if found and each.begin <= found[-1].end:
            found[-1] = OffsetRange(found[-1].begin, max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def _batches(replica: Replica, within: OffsetRange) -> Iterator[Batch]:
    """Yield the sound batches that have some of the offsets."""
    for run in replica.runs:
        if run.next_offset <= within.begin or run.first_offset >= within.end:
            continue
        with replica.directory.open_reading(run.name) as file:
            scan = LogScan(file, start=run.begin, end=run.end)
            scan.seek(within.begin)
            for batch in scan:
                if batch.base_offset >= within.end and batch.read_first_offset() >= within.end:
                    return
                yield batch


class _Walk:
    """Two replicas' batches being compared in the order of their offsets."""

    def __init__(self, within: OffsetRange) -> None:
        self.found: list[Parting] = []
        self._within = within
        self._after = within.begin
        self._is_parted = False

    def compare(self, ours: Iterator[Batch], theirs: Iterator[Batch]) -> None:
        """Go through the batches of both."""
        mine, its = next(ours, None), next(theirs, None)
        while mine is not None and its is not None:
            mine_last, its_last = mine.last_offset, its.last_offset
            if identity(mine) == identity(its):
                self._agree(its.base_offset, its_last + 1)
            elif mine_last >= (its_first := its.read_first_offset()) and its_last >= mine.read_first_offset():
                if _is_same_but_cleaned(mine, its):
                    self._agree(its_first, its_last + 1)
                else:
                    self._contradict(its_first, its_last + 1)
            if mine_last <= its_last:
                mine = next(ours, None)
            if its_last <= mine_last:
                its = next(theirs, None)

    def _agree(self, begin: int, end: int) -> None:
        if self._is_parted:
            self.found[-1] = self.found[-1]._replace(before=begin)
            self._is_parted = False
        self._after = end

    def _contradict(self, begin: int, end: int) -> None:
        if self.found and (self._is_parted or len(self.found) == _PARTINGS_MAX):
            before = self.found[-1]
            offsets = before.offsets._replace(end=end)
            self.found[-1] = Parting(offsets, before.after, self._within.end)
        else:
            self.found.append(Parting(OffsetRange(begin, end), self._after, self._within.end))
        self._is_parted = True


def _is_same_but_cleaned(one: Batch, other: Batch) -> bool:
    """Return True if a cleaner may have rewritten one of two batches, and no record of theirs contradicts the other.

    A broker may have converted one too, if they are of two versions. Records of old ones may get their wrapper's time.
    """
    if one.magic == other.magic and not (_may_be_cleaned(one) or _may_be_cleaned(other)):
        return False
    is_new = isinstance(one, RecordBatch) and isinstance(other, RecordBatch)
    if isinstance(one, RecordBatch) and isinstance(other, RecordBatch) and _frame(one) != _frame(other):
        return False
    try:
        records = {record.offset: _content(record, with_time=is_new) for record in one.records()}
        return all(
            records.get(record.offset, content) == content
            for record in other.records()
            if (content := _content(record, with_time=is_new))
        )
    except StorageError:
        return False


def _may_be_cleaned(batch: Batch) -> bool:
    """Return True if the batch is not surely as it was appended: of a wrapper nothing tells."""
    if isinstance(batch, RecordBatch):
        return batch.count <= batch.last_offset - batch.base_offset or batch.delete_horizon_ms is not None
    return batch.count is None


def _frame(batch: RecordBatch) -> tuple[int, ...]:
    """Return what a cleaner keeps of a batch."""
    return batch.base_offset, batch.last_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence


def _content(record: Record, *, with_time: bool) -> tuple[object, ...]:
    has_time = with_time and record.timestamp_type == TimestampType.CREATE_TIME
    return record.key, record.value, record.timestamp if has_time else None
