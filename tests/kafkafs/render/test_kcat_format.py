"""kcat's formats: every token, what null is, and what is said of a text that is no format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.render.kcat_format import KcatFormat
from storage.record import batches_of_rows, read_batches
from storage.testing.codec import OracleRecord, encode_entry, entry_of

if TYPE_CHECKING:
    from storage.record import Record
    from storage.record.encoding import Row

T = 1_700_000_000_000
HEADERS = (("a", b"1"), ("b", None), ("c", b""), ("\udcff", b"\xfe"))


def records_of(*rows: Row) -> list[Record]:
    (data,) = batches_of_rows(rows)
    return [record for batch in read_batches(data) for record in batch.records()]


FULL, EMPTY, NULL = records_of((T, b"key\xff", b"value\n", HEADERS), (T + 1, b"", b"", ()), (-1, None, None, ()))


@pytest.mark.parametrize(
    ("text", "full", "empty", "null"),
    [
        ("%t", b"orders", b"orders", b"orders"),
        ("%p", b"3", b"3", b"3"),
        ("%o", b"0", b"1", b"2"),
        ("%k", b"key\xff", b"", b""),
        ("%s", b"value\n", b"", b""),
        ("%T", b"1700000000000", b"1700000000001", b"-1"),
        ("%h", b"a=1,b=NULL,c=,\xff=\xfe", b"", b""),
        ("%K", b"4", b"0", b"-1"),
        ("%S", b"6", b"0", b"-1"),
        ("%R", b"\0\0\0\x06", b"\0\0\0\0", b"\xff\xff\xff\xff"),
        ("%k{hex}", b"6b6579ff", b"", b""),
        ("%s{base64}", b"dmFsdWUK", b"", b""),
        ("%t{hex}", b"6f7264657273", b"6f7264657273", b"6f7264657273"),
        ("%%%o%%o", b"%0%o", b"%1%o", b"%2%o"),
        ("%t %p %o %k %s\\n", b"orders 3 0 key\xff value\n\n", b"orders 3 1  \n", b"orders 3 2  \n"),
    ],
)
def test_tokens(text: str, full: bytes, empty: bytes, null: bytes) -> None:
    render = KcatFormat(text).over("orders", 3)
    assert [render(record) for record in (FULL, EMPTY, NULL)] == [full, empty, null]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", b""),
        ("plain 100 {} text", b"plain 100 {} text"),
        ("\\n\\t\\r\\\\", b"\n\t\r\\"),
        ("\\x41\\xff\\x7z", b"A\xff\x07z"),
        ("\\0a\\033[1m\\08\\0012", b"\0a\x1b[1m\x008\x012"),
        ("Zürich\udcff", b"Z\xc3\xbcrich\xff"),
        ('{"o":%o,"k":{%k}}', b'{"o":0,"k":{key\xff}}'),
        ("%k{%s{hex}}", b"key\xff{76616c75650a}"),
        ("%k{}%o{hex}", b"key\xff{}0{hex}"),
    ],
)
def test_everything_else_stands_for_itself(text: str, expected: bytes) -> None:
    assert KcatFormat(text).over("orders", 3)(FULL) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("%", "'%' is nothing"),
        ("%o %", "'%' is nothing"),
        ("%x", "'%x' is nothing"),
        ("a\\", r"'\\\\' is nothing"),
        ("\\q", r"'\\\\q' is nothing"),
        ("\\65", r"'\\\\6' is nothing"),
        ("\\x", r"'\\\\x' is nothing"),
        ("%k{md5}", r"%k\{md5\} has a modifier that does not exist; \{hex\} and \{base64\} do"),
        ("%é", "'%é' is nothing"),
        ("%\udcff", "'%"),
    ],
)
def test_what_is_no_format_is_said(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{complaint}"):
        KcatFormat(text)


def test_an_old_entry_whose_size_is_below_that_of_null_is_null() -> None:
    data = bytearray(encode_entry(entry_of(OracleRecord(offset=7, value=None), 0)))
    data[-4:] = b"\xff\xff\xff\xf0"
    ((record,),) = [batch.records() for batch in read_batches(data)]
    assert record.value_size == -16
    assert KcatFormat("%S %R").over("orders", 0)(record) == b"-1 \xff\xff\xff\xff"


@pytest.mark.property
@given(st.text(alphabet="%\\{}toksKx0n1 hexbas64é") | st.text())
def test_a_text_is_a_format_or_said_not_to_be(text: str) -> None:
    try:
        render = KcatFormat(text).over("orders", 3)
    except ValueError:
        return
    assert isinstance(render(FULL), bytes)
