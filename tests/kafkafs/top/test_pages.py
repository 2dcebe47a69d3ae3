"""The screen without a terminal: rows and their order, widths, what each key does, and stores that are empty or odd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkafs.plain_text import columns_of
from kafkafs.top.detail import Detail, detail_lines
from kafkafs.top.next_freed import NextFreed
from kafkafs.top.pages import Pages, Wish
from kafkafs.top.reading import PartitionReading, Reading
from kafkafs.top.rows import Key, partition_rows, sorted_rows, topic_rows
from kafkafs.top.table import OF_PARTITIONS, OF_TOPICS, Style, table_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def partition(topic: str, number: int, **more: object) -> PartitionReading:
    figures: dict[str, object] = {
        "start_offset": 0,
        "end_offset": 100,
        "size_bytes": 1000 * (number + 1),
        "segments": 2,
        "bytes_per_second": 10.0 * number,
        "records_per_second": 1.0 * number,
        "oldest_ms": NOW_MS - HOUR_MS,
    }
    return PartitionReading(topic, number, **{**figures, **more})  # type: ignore[arg-type]


READING = Reading(
    NOW_MS,
    (
        partition("audit", 0, lags=(("a", 3), ("b", 2)), size_bytes=5_000_000),
        partition("audit", 1, lags=(("b", 2),), next_freed=NextFreed(700, NOW_MS + 2 * HOUR_MS)),
        partition("orders", 0, next_freed=NextFreed(500, NOW_MS - 1), lags=(("名前" * 30, 9_999_999),)),
        partition("orders", 1, next_freed=NextFreed(300, NOW_MS - 9), oldest_ms=None),
        partition("orders", 2, next_freed=NextFreed(100, None, 4000), is_freed_known=False, oldest_ms=NOW_MS - 9000),
        PartitionReading("payments", 0, error="the log is a link\x1b[31m (d1/payments-0)"),
    ),
    (),
)


def pages(reading: Reading = READING, key: Key = Key.RATE) -> Pages:
    made = Pages("/var/lib/kafka", 2.0, key)
    made.take(reading, None)
    return made


def texts(shown: Pages, width: int = 100, height: int = 20) -> list[str]:
    return [line.text for line in shown.lines(width, height)]


def names(shown: Pages) -> list[str]:
    lines = shown.lines(200, 40)
    start = next(at for at, line in enumerate(lines) if line.style is Style.HEADER)
    return [line.text.split()[0] for line in lines[start + 1 : -1] if line.text.strip()]


def chosen(shown: Pages) -> str:
    (line,) = [line.text for line in shown.lines(200, 40) if line.style is Style.CHOSEN]
    return line.split()[0]


def press(shown: Pages, keys: Sequence[str]) -> list[Wish | None]:
    return [shown.press(key) for key in keys]


def test_a_topic_has_its_partitions_together() -> None:
    audit, orders, payments = topic_rows(READING)
    assert (audit.partitions, audit.size_bytes, audit.bytes_per_second) == (2, 5_002_000, 10)
    assert (audit.lag, audit.group) == (4, "b")
    assert audit.fields()["nextFreedSeconds"] == 7200
    assert (orders.fields()["nextFreedBytes"], orders.fields()["nextFreedSeconds"]) == (800, 0)
    assert orders.oldest_ms == NOW_MS - HOUR_MS
    assert (payments.errors, payments.size_bytes, payments.freed) == (1, 0, None)


@pytest.mark.parametrize(
    ("key", "order"),
    [
        (Key.RATE, "orders-2 audit-1 orders-1 audit-0 orders-0 payments-0"),
        (Key.SIZE, "audit-0 orders-2 audit-1 orders-1 orders-0 payments-0"),
        (Key.LAG, "orders-0 audit-0 audit-1 orders-2 orders-1 payments-0"),
        (Key.OLDEST, "audit-0 audit-1 orders-0 orders-2 orders-1 payments-0"),
        (Key.FREED, "orders-1 orders-0 orders-2 audit-1 audit-0 payments-0"),
        (Key.NAME, "audit-0 audit-1 orders-0 orders-1 orders-2 payments-0"),
    ],
)
def test_the_orders_of_rows(key: Key, order: str) -> None:
    rows = sorted_rows(partition_rows(READING), key)
    assert [row.name for row in rows] == order.split()
    turned = sorted_rows(partition_rows(READING), key, is_reversed=True)
    if key is Key.NAME:
        assert [row.name for row in turned] == order.split()[::-1]
    else:
        assert turned[-1].name == "payments-0"  # what is unknown is last either way


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (0, 100, "offsets 0 to 99"),
        (7, 8, "offset 7"),
        (12, 12, "no records (the next offset is 12)"),
        (None, None, "offsets unknown"),
    ],
)
def test_a_partitions_page_has_the_first_and_the_last_offset(start: int | None, end: int | None, text: str) -> None:
    reading = Reading(NOW_MS, (partition("t", 0, start_offset=start, end_offset=end),), ())
    (row,) = partition_rows(reading)
    lines = [line.text for line in detail_lines(row, Detail("t", 0, "/d/t-0", None, (), None))]
    assert lines[1] == f"log          {text}"


@pytest.mark.parametrize("width", [1, 10, 24, 40, 80, 120, 200])
@pytest.mark.parametrize("keys", ["", "p", "?", "/x", ("enter",), ("p", "enter")])
@pytest.mark.parametrize("height", [1, 4, 9, 24])
def test_no_line_is_wider_than_the_screen_and_none_has_a_control_character(
    width: int, keys: Sequence[str], height: int
) -> None:
    shown = pages()
    press(shown, keys)
    lines = texts(shown, width, height)
    assert len(lines) == height
    assert max(map(columns_of, lines)) <= width
    assert all(character.isprintable() for line in lines for character in line)


def test_80_columns_have_what_matters_and_200_have_everything() -> None:
    rows = topic_rows(READING)
    narrow = table_lines(rows, OF_TOPICS, 80)[0].text.split("  ")
    assert {"BYTES/S", "REC/S", "SIZE", "LAG", "FREED NEXT"} <= {each.strip() for each in narrow}
    wide = table_lines(partition_rows(READING), OF_PARTITIONS, 200)
    assert all(column.title in wide[0].text for column in OF_PARTITIONS)
    of_topics = table_lines(rows, OF_TOPICS, 200)
    assert "700B in 2h" in of_topics[1].text
    assert "800B now" in of_topics[2].text
    assert [line.text for line in wide if line.style is Style.BAD] == [
        r"payments-0  ! the log is a link\u001B[31m (d1/payments-0)"
    ]


@pytest.mark.parametrize("width", [24, 30, 40, 60])
def test_a_narrow_screen_leaves_out_figures_rather_than_names(width: int) -> None:
    rows = topic_rows(READING)
    head, *lines = (line.text for line in table_lines(rows, OF_TOPICS, width))
    assert "SIZE" in head
    assert all(line.startswith(row.name[:12]) for line, row in zip(lines, rows, strict=False))


def test_the_keys_are_told_in_80_columns() -> None:
    shown = pages()
    press(shown, "?")
    assert not any("~" in text for text in texts(shown, 80, 24))


def test_what_is_logged_is_shown_until_a_key_is_pressed() -> None:
    shown = pages()
    shown.note("orders-0 is gone\x1b[2J\nfrom d1")
    assert texts(shown)[2] == r"! orders-0 is gone\u001B[2J\nfrom d1"
    press(shown, ["down"])
    assert texts(shown)[2] == "! partitions with errors: 1"


def test_growth_decides_what_is_freed_next() -> None:
    row = partition_rows(Reading(NOW_MS, (READING.partitions[4],), ()))[0]
    assert row.fields()["nextFreedSeconds"] == 4000 / 20
    still = partition("orders", 2, next_freed=NextFreed(100, None, 4000), bytes_per_second=0.0)
    lines = table_lines(partition_rows(Reading(NOW_MS, (still,), ())), OF_PARTITIONS, None)
    assert lines[1].text.endswith("100B at +4kB")


def test_the_chosen_row_stays_chosen_while_the_order_changes() -> None:
    shown = pages()
    assert names(shown) == ["orders", "audit", "payments"]
    assert chosen(shown) == "orders"
    press(shown, ["down"])
    assert chosen(shown) == "audit"
    press(shown, "n")
    assert (names(shown)[0], chosen(shown)) == ("audit", "audit")
    press(shown, "n")
    assert names(shown) == ["payments", "orders", "audit"]
    press(shown, ["home"])
    assert chosen(shown) == "payments"
    press(shown, ["pagedown", "down"])
    assert chosen(shown) == "audit"
    shown.take(Reading(NOW_MS, READING.partitions[2:], ()), None)
    assert chosen(shown) == "payments"  # its topic was deleted


def test_rows_scroll_with_the_chosen_one() -> None:
    shown = pages(Reading(NOW_MS, tuple(partition(f"topic{number:03}", 0) for number in range(100)), ()), Key.NAME)
    for key, first in (("", 0), ("end", 95), ("home", 0), ("pagedown", 1), ("pagedown", 6), ("up", 6)):
        press(shown, [key] if key else [])
        assert texts(shown, 80, 10)[4].split()[0] == f"topic{first:03}"


def test_from_topics_to_a_partition_and_back() -> None:
    shown = pages(key=Key.NAME)
    press(shown, ["down", "enter"])
    assert names(shown) == ["orders-0", "orders-1", "orders-2"]
    assert press(shown, ["down", "enter"]) == [None, Wish.READ]
    assert shown.detailed == ("orders", 1)
    assert "reading it" in texts(shown)
    shown.take(READING, Detail("orders", 1, "/d1/orders-1", None, (("billing", 7),), "the log is a link"))
    told = texts(shown)
    assert {"directory    /d1/orders-1", "billing  lag 7", "! the log is a link"} <= set(told)
    shown.take(Reading(NOW_MS, (), ()), None)
    assert "it is gone" in texts(shown)
    shown.take(READING, None)
    press(shown, ["escape"])
    assert chosen(shown) == "orders-1"
    press(shown, ["escape"])
    assert (names(shown), chosen(shown)) == (["audit", "orders", "payments"], "orders")


def test_a_filter_is_typed() -> None:
    shown = pages()
    press(shown, "/ORDq")
    assert texts(shown)[-1].startswith("/ORDq_")
    press(shown, ["backspace", "enter"])
    assert names(shown) == ["orders"]
    press(shown, "/")
    press(shown, "zzz")
    assert any("no name has 'ORDzzz'" in text for text in texts(shown))
    press(shown, ["enter"])
    press(shown, ["escape"])
    assert len(names(shown)) == 3


def test_pausing_and_how_often() -> None:
    shown = pages()
    assert press(shown, "  ") == [None, Wish.READ]
    press(shown, " ++")
    assert (shown.is_paused, shown.interval_s) == (True, 8.0)
    assert "paused" in texts(shown)[0]
    press(shown, "-" * 20)
    assert shown.interval_s == 0.5
    press(shown, "+" * 20)
    assert shown.interval_s == 60
    assert press(shown, "?q") == [None, Wish.LEAVE]


def test_what_there_is_before_the_first_look_and_in_an_empty_store() -> None:
    shown = Pages("/s", 2.0, Key.RATE)
    assert "reading the store" in texts(shown)
    shown.take_progress(3, 20)
    assert "reading 3 of 20 partitions" in texts(shown)
    press(shown, ["down", "enter", "end"])
    shown.take(Reading(NOW_MS, (), ("one thing is missing", "another")), None)
    press(shown, ["down", "enter", "end", "pageup"])
    assert "there are no topics" in texts(shown)
    assert "! one thing is missing (and 1 more)" in texts(shown)
