"""Compares two streams of records offset by offset, however they are batched.

Columns are compared as a whole, and record by record only if they differ. A key, value, header or header's value that
is null differs from an empty one. Names of headers that are not UTF-8 are compared as `storage.record.columns` returns
them, with undecodable bytes replaced.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIELDS: Final = ("timestamp", "key", "value", "headers")
COMPARED_COLUMNS: Final = ("offset", *FIELDS)
"""The columns of both streams."""

ONLY_IN_STORE: Final = "store"
ONLY_IN_OTHER: Final = "other"


class Difference(NamedTuple):
    """An offset whose records differ in these fields, or at which only one stream has a record."""

    offset: int
    fields: tuple[str, ...] = ()
    only_in: str | None = None


class Comparison(NamedTuple):
    """The number of records of both, the number of differing offsets, and the first of them."""

    records: int = 0
    other_records: int = 0
    differing: int = 0
    differences: tuple[Difference, ...] = ()

    def followed_by(self, following: Comparison, differences_max: int) -> Comparison:
        """Return this with that of later offsets."""
        return Comparison(
            self.records + following.records,
            self.other_records + following.other_records,
            self.differing + following.differing,
            (*self.differences, *following.differences)[:differences_max],
        )


def compare(one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch], differences_max: int) -> Comparison:
    """Compare the records of two streams, in each of which offsets rise."""
    found = Comparison()
    for ours, theirs in _aligned(one, other):
        if ours.equals(theirs):
            part = Comparison(ours.num_rows, theirs.num_rows)
        else:
            part = _compared(ours, theirs, differences_max)
        found = found.followed_by(part, differences_max)
    return found


def _aligned(
    one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield pieces of both streams, cut at the same offsets."""
    ones, others = ((batch for batch in batches if batch.num_rows) for batches in (one, other))
    ours, theirs = next(ones, None), next(others, None)
    while ours is not None and theirs is not None:
        last = min(_last_offset(ours), _last_offset(theirs))
        our_rows, their_rows = _rows_up_to(last, ours), _rows_up_to(last, theirs)
        yield ours.slice(0, our_rows), theirs.slice(0, their_rows)
        ours = ours.slice(our_rows) if our_rows < ours.num_rows else next(ones, None)
        theirs = theirs.slice(their_rows) if their_rows < theirs.num_rows else next(others, None)
    while ours is not None:
        yield ours, ours.slice(0, 0)
        ours = next(ones, None)
    while theirs is not None:
        yield theirs.slice(0, 0), theirs
        theirs = next(others, None)


def _compared(ours: pa.RecordBatch, theirs: pa.RecordBatch, differences_max: int) -> Comparison:
    is_in_theirs = pc.is_in(ours.column("offset"), value_set=theirs.column("offset"))
    is_in_ours = pc.is_in(theirs.column("offset"), value_set=ours.column("offset"))
    only_ours, only_theirs = ours.filter(pc.invert(is_in_theirs)), theirs.filter(pc.invert(is_in_ours))
    ours_of_both, theirs_of_both = ours.filter(is_in_theirs), theirs.filter(is_in_ours)
    differs = {name: _differs(ours_of_both.column(name), theirs_of_both.column(name)) for name in FIELDS}
    rows = [row for row, any_differs in enumerate(zip(*differs.values(), strict=True)) if any(any_differs)]
    offsets = _offsets(ours_of_both)
    differences = merge(
        (Difference(offset, only_in=ONLY_IN_STORE) for offset in _offsets(only_ours)),
        (Difference(offset, only_in=ONLY_IN_OTHER) for offset in _offsets(only_theirs)),
        (Difference(offsets[row], tuple(name for name in FIELDS if differs[name][row])) for row in rows),
        key=lambda difference: difference.offset,
    )
    return Comparison(
        ours.num_rows,
        theirs.num_rows,
        only_ours.num_rows + only_theirs.num_rows + len(rows),
        tuple(islice(differences, differences_max)),
    )


def _differs(ours: pa.Array[Any], theirs: pa.Array[Any]) -> list[bool]:
    """Return whether values differ, row by row."""
    if ours.equals(theirs):
        return [False] * len(ours)
    if pa.types.is_list(ours.type):  # Arrow compares no lists row by row
        return [one != other for one, other in zip(ours.to_pylist(), theirs.to_pylist(), strict=True)]
    is_unequal = pc.not_equal(ours, theirs).fill_null(False)
    is_null_in_one: list[Any] = pc.xor(ours.is_null(), theirs.is_null()).to_pylist()
    return [one or other for one, other in zip(is_unequal.to_pylist(), is_null_in_one, strict=True)]


def _offsets(batch: pa.RecordBatch) -> list[int]:
    found: list[Any] = batch.column("offset").to_pylist()
    return found


def _last_offset(batch: pa.RecordBatch) -> int:
    offset: int = batch.column("offset")[-1].as_py()
    return offset


def _rows_up_to(offset: int, batch: pa.RecordBatch) -> int:
    if _last_offset(batch) <= offset:
        return batch.num_rows
    return pc.less_equal(batch.column("offset"), pa.scalar(offset)).true_count
