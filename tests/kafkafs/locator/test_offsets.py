"""Names of records: every example of the contract, each name one reading, each value a name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.formats import Format
from kafkafs.locator.numbers import NUMBER_MAX
from kafkafs.locator.offsets import AtOffset, Edge, FromEnd, OffsetName, RecordRange, parse_offset_name

if TYPE_CHECKING:
    from kafkafs.locator.offsets import RangeEnd, Record

START, END = Edge.EARLIEST, Edge.END

FORMATS = st.sampled_from(list(Format))
NUMBERS = st.integers(0, 200) | st.integers(0, NUMBER_MAX)
COUNTS = st.integers(1, 5) | st.integers(1, NUMBER_MAX)
SINGLE = st.builds(AtOffset, NUMBERS) | st.builds(FromEnd, COUNTS) | st.just(START)
SPANS = st.builds(RecordRange, SINGLE, SINGLE | st.just(END))
NAMES = st.builds(OffsetName, SINGLE | SPANS, FORMATS)

PIECES = [
    *("..", ".", "-", "+", " ", "0", "1", "42", "00", "9223372036854775807", "9223372036854775808", "all", "json"),
    *("earliest", "latest", "last-", "last", "now", "15m", "\u0663", "\n", "\udcff", *(str(form) for form in Format)),
]
TEXTS = (
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
    | st.text("0123456789.-", max_size=12)
    | st.text(max_size=9)
)

RECORDS = [
    ("42", AtOffset(42), "42"),
    ("0", AtOffset(0), "0"),
    ("0042", AtOffset(42), "42"),
    ("00000000000000000042", AtOffset(42), "42"),  # as in a segment's name
    ("9223372036854775807", AtOffset(2**63 - 1), "9223372036854775807"),
    ("earliest", START, "earliest"),
    ("latest", FromEnd(1), "latest"),
    ("last-1", FromEnd(1), "latest"),
    ("-1", FromEnd(1), "latest"),
    ("-10", FromEnd(10), "last-10"),
    ("last-10", FromEnd(10), "last-10"),
]

RANGES = [
    ("100..200", AtOffset(100), AtOffset(200), "100..200"),
    ("100..", AtOffset(100), END, "100.."),
    ("..200", START, AtOffset(200), "..200"),
    ("last-100..", FromEnd(100), END, "last-100.."),
    ("-100..", FromEnd(100), END, "last-100.."),
    ("all", START, END, "all"),
    ("-10..-5", FromEnd(10), FromEnd(5), "last-10..last-5"),
    ("last-100..last-10", FromEnd(100), FromEnd(10), "last-100..last-10"),
    ("earliest..42", START, AtOffset(42), "..42"),
    ("42..latest", AtOffset(42), END, "42.."),
    ("..latest", START, END, "all"),
    ("earliest..", START, END, "all"),
    ("earliest..latest", START, END, "all"),
    ("latest..", FromEnd(1), END, "latest.."),
    ("latest..latest", FromEnd(1), END, "latest.."),
    ("..last-1", START, FromEnd(1), "..last-1"),
    ("..-1", START, FromEnd(1), "..last-1"),
    ("-1..-1", FromEnd(1), FromEnd(1), "latest..last-1"),
    ("..earliest", START, START, "..earliest"),
    ("5..3", AtOffset(5), AtOffset(3), "5..3"),
]

OUTSIDE = [
    *("", ".", "..", "...", "....", " ", "42 ", " 42", "42\n", "\n", "+5", "-", "--1", "-0", "last-0", "last"),
    *("last-", "9223372036854775808", "-9223372036854775808", "000000000000000000042", "9" * 5000, "1e3"),
    *("0x10", "4_2", "1.0", "\u0663", "\u00b2", "\uff14", "Latest", "LATEST", "ALL", "end", "10-20", "1...2"),
    *("1..2..3", "1....2", "all..", "..all", "100...", "1,2", "a..b", "100..b", "..json", "...json", ".json"),
    *("42.txt", "42.JSON", "42.json.json", "42.", "42..json", "json", "now", "-15m", "2026-11-21", "/", "42/"),
    *("\udcff", "\0", "last--1", "-last-1"),
]


@pytest.mark.parametrize(("name", "record", "canonical"), RECORDS)
@pytest.mark.parametrize("form", list(Format))
def test_records(name: str, record: Record, canonical: str, form: Format) -> None:
    parsed = parse_offset_name(f"{name}{form}")
    assert parsed == OffsetName(record, form)
    assert str(parsed) == f"{canonical}{form}"


@pytest.mark.parametrize(("name", "start", "end", "canonical"), RANGES)
@pytest.mark.parametrize("form", list(Format))
def test_ranges(name: str, start: Record, end: RangeEnd, canonical: str, form: Format) -> None:
    parsed = parse_offset_name(f"{name}{form}")
    assert parsed == OffsetName(RecordRange(start, end), form)
    assert str(parsed) == f"{canonical}{form}"


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_outside(name: str) -> None:
    with pytest.raises(BadNameError) as refusal:
        parse_offset_name(name)
    assert refusal.value.name == name


def test_the_refusal_says_what_would_do() -> None:
    with pytest.raises(BadNameError) as refusal:
        parse_offset_name("fourty-two")
    assert str(refusal.value) == (
        "'fourty-two' is not a record or a range of records; these are: 42, earliest, latest, last-10, 100..200, "
        "100.., ..200, last-100.., all, each also with .key, .headers, .json, .jsonl, .hex, .batch after it"
    )
    with pytest.raises(BadNameError, match=r"^'1{100}\.\.\.' is not"):
        parse_offset_name("1" * 100_000)


@given(NAMES)
def test_every_value_has_a_name(value: OffsetName) -> None:
    assert parse_offset_name(str(value)) == value


@given(TEXTS)
@example("..200.jsonl")
def test_a_text_is_a_name_or_refused_and_its_canonical_name_is_stable(text: str) -> None:
    try:
        value = parse_offset_name(text)
    except BadNameError:
        return
    assert parse_offset_name(str(value)) == value
    assert str(parse_offset_name(str(value))) == str(value)


RECORD_BY_CONTRACT = re.compile(r"[0-9]{1,20}|earliest|latest|(?:last)?-0*[1-9][0-9]*")


def readings(text: str) -> list[tuple[str, str, str]]:
    """All ways in which a text is a record or two with dots between, and a suffix, cut at each place that there is."""
    found = []
    for form in Format:
        if not text.endswith(form.value):
            continue
        body = text[: len(text) - len(form)]
        if body == "all" or RECORD_BY_CONTRACT.fullmatch(body):
            found.append((body, "", form))
        for cut in range(len(body) - 1):
            sides = body[:cut], body[cut + 2 :]
            if body[cut : cut + 2] == ".." and any(sides) and all(RECORD_BY_CONTRACT.fullmatch(s) for s in sides if s):
                found.append((*sides, form))
    return found


@given(TEXTS | NAMES.map(str))
@example("100...jsonl")
@example("..200.jsonl")
@example("-10..-5.key")
def test_no_text_has_two_readings(text: str) -> None:
    found = readings(text)
    assert len(found) <= 1
    limited = all(int(number) < 2**63 and len(number) <= 20 for number in re.findall(r"[0-9]+", text))
    assert is_name(text) == (len(found) == 1 and limited)


def is_name(text: str) -> bool:
    try:
        parse_offset_name(text)
    except BadNameError:
        return False
    return True


VISIBLE = [10, 11, 14, 15, 18]  # in a log from 10 up to 20: with gaps, and control records at its end


def from_end(count: int) -> int | None:
    return VISIBLE[-count] if count <= len(VISIBLE) else None


@pytest.mark.parametrize(
    ("name", "offsets"),
    [
        ("all", (10, 20)),
        ("12..15", (12, 15)),
        ("0..15", (10, 15)),
        ("12..99", (12, 20)),
        ("15..", (15, 20)),
        ("..15", (10, 15)),
        ("15..latest", (15, 20)),
        ("last-2..", (15, 20)),
        ("last-5..", (10, 20)),
        ("last-100..", (10, 20)),
        ("last-4..last-2", (11, 15)),
        ("..last-1", (10, 18)),
        ("..last-100", (10, 10)),
        ("latest..", (18, 20)),
        ("latest..latest", (18, 20)),
        ("12..last-1", (12, 18)),
        ("last-3..18", (14, 18)),
        ("15..12", (15, 15)),
        ("15..15", (15, 15)),
        ("15..last-4", (15, 15)),
        ("..earliest", (10, 10)),
        ("99..", (20, 20)),
        ("99..100", (20, 20)),
        ("0..5", (10, 10)),
        ("30..5", (20, 20)),
    ],
)
def test_ranges_are_cut_to_what_exists(name: str, offsets: tuple[int, int]) -> None:
    records = parse_offset_name(name).records
    assert isinstance(records, RecordRange)
    assert records.resolve(10, 20, from_end) == offsets


@given(SPANS, st.integers(0, 50), st.integers(0, 50), st.data())
def test_what_is_resolved_lies_in_the_log(value: RecordRange, start: int, length: int, data: st.DataObject) -> None:
    visible = sorted(data.draw(st.sets(st.integers(start, start + length - 1)))) if length else []
    first, end = value.resolve(start, start + length, lambda n: visible[-n] if n <= len(visible) else None)
    assert start <= first <= end <= start + length


def test_only_what_counts_from_the_end_is_asked_for() -> None:
    asked: list[int] = []

    def ask(count: int) -> int | None:
        asked.append(count)
        return from_end(count)

    for name in ("all", "1..2", "..12", "12.."):
        records = parse_offset_name(name).records
        assert isinstance(records, RecordRange)
        records.resolve(10, 20, ask)
    assert asked == []
