"""Two streams of records compared: as a comparison of every record with every other says, however they are cut."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from kafkafs.spark.jobs.record_comparison import COMPARED_COLUMNS, FIELDS, Comparison, Difference, compare
from storage.record.columns import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Rows: TypeAlias = dict[int, dict[str, object]]

BYTES = (None, b"", b"a", b"b")
HEADERS = ([], [{"key": "h", "value": None}], [{"key": "h", "value": b""}], [{"key": "", "value": b"x"}] * 2)


def some_rows(rng: random.Random) -> Rows:
    return {
        offset: {
            "timestamp": rng.choice([0, 1]),
            "key": rng.choice(BYTES),
            "value": rng.choice(BYTES),
            "headers": rng.choice(HEADERS),
        }
        for offset in range(rng.randrange(60))
        if rng.random() < 0.8
    }


def changed(rows: Rows, rng: random.Random) -> Rows:
    """Return the same rows, some of them missing, new or with another field."""
    other = {offset: dict(row) for offset, row in rows.items() if rng.random() > 0.03}
    for offset, row in some_rows(rng).items():
        if rng.random() < 0.1:
            other.setdefault(offset, row).update({name: row[name] for name in FIELDS if rng.random() < 0.5})
    return dict(sorted(other.items()))


def cut(rows: Rows, rng: random.Random) -> Iterator[pa.RecordBatch]:
    listed = [{"offset": offset, **row} for offset, row in rows.items()]
    batch = pa.RecordBatch.from_pylist(listed, schema=schema_of(COMPARED_COLUMNS))
    while batch.num_rows:
        count = rng.randrange(20)
        yield batch.slice(0, count)
        batch = batch.slice(count)


def one_by_one(ours: Mapping[int, object], theirs: Mapping[int, object], differences_max: int) -> Comparison:
    differences = []
    for offset in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(offset), theirs.get(offset)
        if one is None or other is None:
            differences.append(Difference(offset, only_in="other" if one is None else "store"))
        elif one != other:
            differences.append(Difference(offset, tuple(name for name in FIELDS if one[name] != other[name])))
    return Comparison(len(ours), len(theirs), len(differences), tuple(differences[:differences_max]))


def test_what_differs_is_what_a_look_at_each_record_says() -> None:
    rng = random.Random(7)
    differing = set()
    for _ in range(300):
        ours = some_rows(rng)
        theirs = rng.choice([ours, changed(ours, rng), some_rows(rng)])
        due = one_by_one(ours, theirs, 5)
        assert compare(cut(ours, rng), cut(theirs, rng), 5) == due
        differing |= {(difference.fields, difference.only_in) for difference in due.differences}
    assert {((name,), None) for name in FIELDS} | {((), "store"), ((), "other")} <= differing


def test_comparisons_of_ranges_add_up() -> None:
    rng = random.Random(8)
    ours, theirs = some_rows(rng), some_rows(rng)
    whole = compare(cut(ours, rng), cut(theirs, rng), 3)
    found = Comparison()
    for start in range(0, 60, 10):
        parts = [{at: row for at, row in rows.items() if start <= at < start + 10} for rows in (ours, theirs)]
        found = found.followed_by(compare(*(cut(part, rng) for part in parts), 3), 3)
    assert found == whole
    assert whole.differing > 3
