"""The kernel finds the records that a plain look at each finds, in batches of any version, codec and content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.find.query import Query, ValuePattern
from kafkafs.render.batch_lines import PLACE_BYTES, MatchPlaces, Visible, places_in
from storage.record import Batch, BatchForm, Codec, Row, batches_of_rows, read_batches
from storage.testing import strategies

if TYPE_CHECKING:
    from storage.testing.codec import OracleBatch, OracleEntry

FAR = 2**62
some_bytes = st.sampled_from([b"", b"a", b"b", b"ab"])
or_null = st.none() | some_bytes
rows = st.tuples(
    strategies.timestamps,
    or_null,
    or_null,
    st.lists(st.tuples(st.sampled_from(["a", "b"]), or_null), max_size=3).map(tuple),
)
queries = st.builds(
    Query,
    key=st.just(()) | st.tuples(or_null),
    header_name=st.none() | some_bytes,
    header_value=st.just(()) | st.tuples(or_null),
    value_bytes_min=st.integers(-1, 2),
    value_bytes_max=st.integers(-1, 3),
    producer_id=st.none() | st.sampled_from([-1, 0, 7]),
    of_transactions=st.booleans(),
)


def check(batch: Batch, query: Query, start: int, end: int) -> None:
    def is_match(record: object, of: Batch) -> bool:
        return start <= record.offset < end and query.matches_but_pattern(record, of)  # type: ignore[attr-defined, arg-type]

    visible = Visible(FAR)
    expected = [
        (batch.position, record.offset)
        for record in (batch.records() if visible.shows(batch) else ())
        if is_match(record, batch)
    ]
    places = MatchPlaces(query.criteria(start, end), is_match)
    found = places.render(batch, visible, batch.position + batch.size_bytes, only_size=False)
    assert list(places_in(found.lines)) == expected
    counted = places.render(batch, visible, batch.position + batch.size_bytes, only_size=True)
    assert counted.size_bytes == found.size_bytes == PLACE_BYTES * len(expected)


@pytest.mark.property
@given(strategies.logs(), queries)
def test_any_log(units: tuple[OracleBatch | OracleEntry, ...], query: Query) -> None:
    for batch in read_batches(b"".join(map(strategies.encoded, units))):
        check(batch, query, 0, FAR)


@pytest.mark.property
@given(
    st.lists(rows, min_size=1, max_size=8),
    queries,
    st.sampled_from(Codec),
    st.booleans(),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_records_that_match_and_others(
    written: list[Row], query: Query, codec: Codec, transactional: bool, bounds: tuple[int, int]
) -> None:
    form = BatchForm(codec=codec, producer_id=7, producer_epoch=0, base_sequence=0, transactional=transactional)
    for data in batches_of_rows(written, form=form, base_offset=1):
        for batch in read_batches(data):
            check(batch, query, *bounds)


WORDS = ("École", "école", "x日y", "KÖLN", "köln", "PARIS", "straße 5")


@pytest.mark.parametrize(
    ("expression", "ignores_case", "expected"),
    [
        ("^[Ö]", False, []),
        ("^x.y$", False, ["x日y"]),
        ("K[äöüÖ]LN", False, ["KÖLN"]),
        ("köln", True, ["KÖLN", "köln"]),
        ("École", True, ["École", "école"]),
        (r"^\w+$", False, ["École", "école", "x日y", "KÖLN", "köln", "PARIS"]),
        ("\\u65e5", False, ["x日y"]),
        ("ß", False, ["straße 5"]),
        ("paris", True, ["PARIS"]),
    ],
)
def test_expressions_match_characters(expression: str, ignores_case: bool, expected: list[str]) -> None:
    pattern = ValuePattern.of(expression, ignores_case=ignores_case)
    assert [word for word in WORDS if pattern.matches(word.encode())] == expected
    assert pattern.may_match("\n".join(WORDS).encode()) is bool(expected)
    assert pattern.may_match(b"\xe6\n" + "\n".join(WORDS).encode() + b"\n\xe6") or not expected


@pytest.mark.parametrize(
    ("expression", "expected"), [(r"\xff", True), ("\udcff", True), ("^.{3}$", True), ("\\u65e5", False), ("É", False)]
)
def test_expressions_match_bytes_where_a_value_is_not_utf_8(expression: str, *, expected: bool) -> None:
    pattern = ValuePattern.of(expression)
    assert pattern.matches(b"a\xff\xc3") is pattern.may_match(b"a\xff\xc3\nb") is expected


@given(
    st.sampled_from(
        ["a", "^a$", "[^a]+b", "(?>[^b]*)$", "[^b]++$", "(?-m:^a$)", "é", "(?i:É)", r"\Aa", "b(?!a)", "^$", r"\xe9"]
    ),
    st.lists(st.text("abéÉ").map(str.encode) | st.binary(max_size=3), max_size=4),
)
def test_many_values_are_passed_over_only_if_none_matches(expression: str, values: list[bytes]) -> None:
    pattern = ValuePattern.of(expression)
    if pattern.fits_many_values and any(map(pattern.matches, values)):
        assert pattern.may_match(b"\n".join(values))
