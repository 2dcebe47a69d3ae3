"""Names of times: every example of the contract, each name one reading, each value a name."""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkafs.locator.errors import AmbiguousNameError, BadNameError
from kafkafs.locator.formats import Format
from kafkafs.locator.numbers import NUMBER_MAX
from kafkafs.locator.times import (
    Ago,
    Day,
    Instant,
    TimeName,
    TimeRange,
    parse_milliseconds,
    parse_time,
    parse_time_name,
)

NOW_MS = 1_800_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000

UNITS_MS = st.sampled_from([1_000, 60_000, 3_600_000, DAY_MS, 7 * DAY_MS])
INSTANTS = st.builds(Instant, st.integers(0, 300_000_000_000_000) | st.integers(0, NUMBER_MAX))
DAYS = st.builds(Day, st.integers(0, 1))
TIMES = INSTANTS | DAYS | st.builds(lambda count, unit_ms: Ago(count * unit_ms), st.integers(0, 1000), UNITS_MS)
RANGES = (
    st.builds(TimeRange, TIMES, TIMES) | st.builds(TimeRange, TIMES, st.none()) | st.builds(TimeRange, st.none(), TIMES)
)
NAMES = st.builds(TimeName, TIMES | RANGES, st.sampled_from(list(Format)))

PIECES = [
    *(
        "..",
        ".",
        "-",
        ":",
        "+",
        " ",
        "0",
        "1",
        "15",
        "100000000000",
        "9223372036854775808",
        "now",
        "today",
        "s",
        "m",
        "w",
        "T",
        "t",
        "Z",
        "z",
    ),
    *("+01:00", "-05", "2026", "2026-11-21", "2026-11-21T10:15:30", ".250", ",250", "T10:15", "\u0663", "\n", "\udcff"),
    *(str(form) for form in Format),
]
TEXTS = (
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
    | st.text("0123456789.-", max_size=12)
    | st.text(max_size=9)
)

KNOWN = [
    ("0", 0),
    ("1732147200000", 1732147200000),
    ("0001732147200000", 1732147200000),
    ("9223372036854775807", 2**63 - 1),
    ("000", 0),
    ("100000000000", 100_000_000_000),
    ("2026-11-21", 1795219200000),
    ("2024-02-29", 1709164800000),
    ("2026-11-21T10", 1795255200000),
    ("2026-11-21T10:15", 1795256100000),
    ("2026-11-21 10:15", 1795256100000),
    ("2026-11-21T10:15:30", 1795256130000),
    ("2026-11-21T10:15:30.250", 1795256130250),
    ("2026-11-21T10:15:30.2", 1795256130200),
    ("2026-11-21T10:15:30,250", 1795256130250),
    ("2026-11-21T10:15:30.250Z", 1795256130250),
    ("2026-11-21t10:15:30.250z", 1795256130250),
    ("2026-11-21T10:15:30.250999999Z", 1795256130251),  # what is finer than a millisecond is rounded up
    ("2026-11-21T10:15:30.250000001Z", 1795256130251),
    ("2026-11-21T10:15:30.250000000Z", 1795256130250),
    ("2026-11-21T23:59:59.9995Z", 1795305600000),
    ("2026-11-21T23:59:59.9995-01:00", 1795309200000),
    ("9999-12-31T23:59:59.9991Z", 253402300800000),
    ("1969-12-31T23:59:59.9995Z", 0),
    ("2026-11-21T10:15:30.250+01:00", 1795252530250),
    ("2026-11-21T10:15+0100", 1795252500000),
    ("2026-11-21T10:15+01", 1795252500000),
    ("2026-11-21T10+01:00", 1795251600000),
    ("2026-11-21T10-05", 1795273200000),
    ("2026-11-21T10:15:30.250-05:30", 1795275930250),
    ("2026-11-21T10:15-00:00", 1795256100000),
    ("9999-12-31T23:59:59.999Z", 253402300799999),
    ("9999-12-31T23:59:59.999-23:59", 253402387139999),
    ("1970-01-01", 0),
    ("1969-12-31T23:59:59.999Z", 0),  # no record is from before 1970
    ("1970-01-01T00:30+01:00", 0),
    ("0001-01-01T00:00+23:59", 0),
]

RELATIVE = [
    ("now", 0, "now"),
    ("-0s", 0, "now"),
    ("-1s", 1_000, "-1s"),
    ("-15m", 900_000, "-15m"),
    ("-60m", 3_600_000, "-1h"),
    ("-90m", 5_400_000, "-90m"),
    ("-2h", 7_200_000, "-2h"),
    ("-1d", DAY_MS, "-1d"),
    ("-52w", 52 * 7 * DAY_MS, "-52w"),
    ("-7d", 7 * DAY_MS, "-1w"),
    ("-1h30m", 5_400_000, "-90m"),
    ("-1w2d3h4m5s", 9 * DAY_MS + 11_045_000, "-788645s"),
    ("-1d0s", DAY_MS, "-1d"),
]

OUTSIDE = [
    *(
        "",
        " ",
        "tomorrow",
        "Today",
        "-today",
        "-5",
        "-",
        "15m",
        "-15y",
        "-15M",
        "-30m1h",
        "-1h1h",
        "-1h30",
        "- 15m",
        "+5",
        "+15m",
        "-1.5h",
    ),
    *("\u0663", "1e3", "now ", "NOW", "now-15m", "earliest", "latest", "all", "2026-11", "2026-13-01"),
    *("2026-02-29", "0000-01-01", "2026-11-31", "2026-1-2", "26-11-21", "2026-11-21Z", "2026-11-21+01:00"),
    *("2026-11-21T", "2026-11-21T24:00", "2026-11-21T10:60", "2026-11-21T10:15:60", "2026-11-21T10:15:30."),
    *("2026-11-21T10:15.5", "2026-11-21T1:15", "2026-11-21T10:15:30.1234567890", "2026-11-21T10:15+24:00"),
    *("2026-11-21T10:15+01:60", "2026-11-21T10:15ZZ", "20261121T101530Z", "2026-W47-6", "2026-325"),
    *("2026-11-21\n", "2026-11-21T10:15:30.250 Z", "2026/11/21", "\udcff", "9223372036854775808", "9" * 5000),
    *("-9223372036854775807s", "\u0662\u0660\u0662\u0666-11-21", "2026-11-21\u00a010"),
]


@pytest.mark.parametrize(("text", "time_ms"), KNOWN)
def test_instants(text: str, time_ms: int) -> None:
    assert parse_time(text) == Instant(time_ms)
    assert parse_time(text).resolve(NOW_MS) == time_ms


@pytest.mark.parametrize(("text", "age_ms", "canonical"), RELATIVE)
def test_relative_times(text: str, age_ms: int, canonical: str) -> None:
    assert parse_time(text) == Ago(age_ms)
    assert str(parse_time(text)) == canonical
    assert parse_time(text).resolve(NOW_MS) == NOW_MS - age_ms
    assert parse_time(text).resolve(500) == max(500 - age_ms, 0)


@pytest.mark.parametrize("text", [*OUTSIDE, ".json", "now.json", "now.."])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(BadNameError, match="is not a time"):
        parse_time(text)


@pytest.mark.parametrize(
    "text", [*OUTSIDE, "..", "...", "....", "..json", "...json", "now..later", "0..-2h..now", "now..."]
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(BadNameError, match="is not a time or a range of times"):
        parse_time_name(text)


def test_the_refusal_says_what_would_do() -> None:
    with pytest.raises(BadNameError) as refusal:
        parse_time("tomorrow")
    assert str(refusal.value) == (
        "'tomorrow' is not a time; these are: 1732147200000, 2026-11-21, 2026-11-21T10:15:30.250Z, now, -15m, today"
    )


@pytest.mark.parametrize(("text", "days_ago"), [("today", 0), ("yesterday", 1)])
def test_days_begin_at_midnight_in_utc(text: str, days_ago: int) -> None:
    time = parse_time(text)
    assert time == Day(days_ago)
    assert str(time) == text
    for now_ms in (20_000 * DAY_MS, 20_000 * DAY_MS + 1, 20_001 * DAY_MS - 1):
        assert time.resolve(now_ms) == (20_000 - days_ago) * DAY_MS
    assert time.resolve(5) == 0


AMBIGUOUS = [
    ("1795263752", "1970-01-21T18:41:03.752Z", "1795263752000", "a date is written 2024-01-01"),
    ("2024", "1970-01-01T00:00:02.024Z", "1970-01-01T00:33:44.000Z", "if it is a date, write 2024-01-01"),
    ("202402", "1970-01-01T00:03:22.402Z", "1970-01-03T08:13:22.000Z", "if it is a date, write 2024-02-01"),
    ("20240229", "1970-01-01T05:37:20.229Z", "1970-08-23T06:17:09.000Z", "if it is a date, write 2024-02-29"),
    ("20240230", "1970-01-01T05:37:20.230Z", "1970-08-23T06:17:10.000Z", "a date is written 2024-01-01"),
    ("99999999999", "1973-03-03T09:46:39.999Z", "99999999999000", "a date is written 2024-01-01"),
    ("1", "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:01.000Z", "a date is written 2024-01-01"),
]


@pytest.mark.parametrize(("text", "as_milliseconds", "as_seconds", "as_date"), AMBIGUOUS)
def test_a_number_that_would_mean_1970_is_refused_with_what_it_may_mean(
    text: str, as_milliseconds: str, as_seconds: str, as_date: str
) -> None:
    for name in (text, f"{text}.json", f"{text}..", f"..{text}", f"-1h..{text}.jsonl", f"{text}..{text}"):
        with pytest.raises(AmbiguousNameError) as refusal:
            parse_time_name(name)
        assert str(refusal.value) == (
            f"{name!r} is not a time: as milliseconds {text} is {as_milliseconds}; "
            f"if it is seconds, write {as_seconds}; {as_date}"
        )
    with pytest.raises(AmbiguousNameError):
        parse_time(text)
    assert parse_time(as_milliseconds) == parse_milliseconds(text) == Instant(int(text))
    assert parse_time(as_seconds) == Instant(int(text) * 1000)


MOMENT = Instant(1795256130250)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("2026-11-21T10:15:30.250Z", TimeName(MOMENT)),
        ("2026-11-21T10:15:30.250Z.json", TimeName(MOMENT, Format.JSON)),
        ("2026-11-21T10:15:30.250.jsonl", TimeName(MOMENT, Format.JSONL)),
        ("2026-11-21T10:15:30.250+00:00.hex", TimeName(MOMENT, Format.HEX)),
        ("1795256130250.key", TimeName(MOMENT, Format.KEY)),
        ("-15m.headers", TimeName(Ago(900_000), Format.HEADERS)),
        ("now.batch", TimeName(Ago(0), Format.BATCH)),
        ("2026-11-21T10:15:30.250..2026-11-21T10:15:30.250.jsonl", TimeName(TimeRange(MOMENT, MOMENT), Format.JSONL)),
        ("2026-11-21T10:15:30.250...jsonl", TimeName(TimeRange(MOMENT, None), Format.JSONL)),
        ("..2026-11-21T10:15:30.250.jsonl", TimeName(TimeRange(None, MOMENT), Format.JSONL)),
        ("-2h..-1h", TimeName(TimeRange(Ago(7_200_000), Ago(3_600_000)))),
        ("-1h..now", TimeName(TimeRange(Ago(3_600_000), Ago(0)))),
        ("0..-1h", TimeName(TimeRange(Instant(0), Ago(3_600_000)))),
    ],
)
def test_names(name: str, value: TimeName) -> None:
    assert parse_time_name(name) == value
    assert parse_time_name(str(value)) == value


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("100000000001..100000000002", (100_000_000_001, 100_000_000_002)),
        ("100000000001..", (100_000_000_001, None)),
        ("..100000000002", (0, 100_000_000_002)),
        ("100000000002..100000000001", (100_000_000_002, 100_000_000_002)),
        # Both sides are rounded up: a record before the first is not asked for, one before the second is.
        ("2026-11-21T10:15:30.2501Z..2026-11-21T10:15:30.2509Z", (1795256130251, 1795256130251)),
        ("2026-11-21T10:15:30.250Z..2026-11-21T10:15:30.2501Z", (1795256130250, 1795256130251)),
        ("yesterday..today", (NOW_MS - 115_200_000, NOW_MS - 28_800_000)),
        ("-2h..-1h", (NOW_MS - 7_200_000, NOW_MS - 3_600_000)),
        ("now..-1h", (NOW_MS, NOW_MS)),
        ("..1969-12-31", (0, 0)),
    ],
)
def test_ranges_are_resolved_when_it_is_asked_for(name: str, bounds: tuple[int, int | None]) -> None:
    times = parse_time_name(name).times
    assert isinstance(times, TimeRange)
    assert times.resolve(NOW_MS) == bounds


@given(RANGES, st.integers(0, 2**53))
def test_no_range_ends_before_it_begins(value: TimeRange, now_ms: int) -> None:
    start, end = value.resolve(now_ms)
    assert start >= 0
    assert end is None or end >= start


@given(NAMES)
def test_every_value_has_a_name(value: TimeName) -> None:
    assert parse_time_name(str(value)) == value


@given(INSTANTS)
def test_listed_names_are_those_of_a_calendar(value: Instant) -> None:
    if value.time_ms > 253402300799999:
        assert str(value) == str(value.time_ms)
    else:
        moment = EPOCH + timedelta(milliseconds=value.time_ms)
        assert str(value) == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


zones = st.none() | st.builds(timezone, st.integers(-1439, 1439).map(lambda minutes: timedelta(minutes=minutes)))


@given(
    st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(9998, 12, 31), timezones=zones),
    st.sampled_from(["hours", "minutes", "seconds", "milliseconds", "microseconds"]),
    st.sampled_from("T "),
)
def test_what_python_writes_is_read_as_python_reads_it(moment: datetime, precision: str, separator: str) -> None:
    text = moment.isoformat(separator, timespec=precision)
    meant = datetime.fromisoformat(text)
    aware = meant if meant.tzinfo else meant.replace(tzinfo=UTC)
    assert parse_time(text) == Instant(-((EPOCH - aware) // timedelta(milliseconds=1)))


@pytest.mark.golden
@pytest.mark.parametrize(
    "form", ["-Idate", "-Ihours", "-Iminutes", "-Iseconds", "-Ins", "--rfc-3339=seconds", "--rfc-3339=ns", "+%FT%T%z"]
)
def test_what_date_writes_is_a_time(form: str) -> None:
    command = ["date", "-d", "2026-11-21 10:00:00 UTC", form]
    done = subprocess.run(command, env={"TZ": "IST-5:30"}, capture_output=True, text=True, check=True)
    # The zone is five and a half hours ahead, where hours alone lose the half, and days alone the zone as well.
    lost_ms = {"-Idate": 36_000_000, "-Ihours": 1_800_000}.get(form, 0)
    assert parse_time(done.stdout.strip()) == Instant(1795255200000 - lost_ms)


def readings(text: str) -> list[tuple[str, str, str]]:
    """All ways in which a text is a time or two with dots between, and a suffix, cut at each place that there is."""
    found = []
    for form in Format:
        if not text.endswith(form.value):
            continue
        body = text[: len(text) - len(form)]
        if is_time(body):
            found.append((body, "", form))
        for cut in range(len(body) - 1):
            sides = body[:cut], body[cut + 2 :]
            if body[cut : cut + 2] == ".." and any(sides) and all(is_time(side) for side in sides if side):
                found.append((*sides, form))
    return found


def is_time(text: str) -> bool:
    """Whether it is one, by other means than the grammar's own where there are such."""
    if re.fullmatch(r"[0-9]{1,20}", text):
        return int(text) == 0 or 10**11 <= int(text) < 2**63
    if re.fullmatch(r"now|today|yesterday|-(?=.)([0-9]{1,12}w)?([0-9]{1,12}d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?", text):
        return True
    # Python reads more than the grammar has: weeks, dates without dashes, blanks, zones to the second.
    shape = re.sub("[0-9]", "0", text.upper())
    if not re.fullmatch(r"0000-00-00(?:[T ]00(?::00(?::00(?:[.,]0{1,9})?)?)?(?:Z|[-+]00(?::?00)?)?)?", shape):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


@given(TEXTS | NAMES.map(str))
@example("2026-11-21T10:15:30.250.jsonl")
@example("2026-11-21T10:15:30.+01:00")
@example("2026-11-21T10:15:30.250...jsonl")
@example("..2026-11-21T10:15:30.250Z.json")
@example("2026-11-21T10:15:30.250..2026-11-21T10:15:30.250.json")
def test_no_text_has_two_readings(text: str) -> None:
    found = readings(text)
    assert len(found) <= 1
    assert is_name(text) == (len(found) == 1)


def is_name(text: str) -> bool:
    try:
        parse_time_name(text)
    except BadNameError:
        return False
    return True


@given(TEXTS)
def test_a_canonical_name_is_stable(text: str) -> None:
    try:
        value = parse_time_name(text)
    except BadNameError:
        return
    assert parse_time_name(str(value)) == value
