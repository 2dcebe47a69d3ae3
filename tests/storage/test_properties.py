"""`.properties` texts, against what java.util.Properties of a JDK 17 made of the same ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import ConfigError
from storage.properties import format_properties, parse_properties

READ_BY_JAVA: list[tuple[str, dict[str, str] | None]] = [
    ("a=b", {"a": "b"}),
    ("a:b", {"a": "b"}),
    ("a b", {"a": "b"}),
    ("a\tb", {"a": "b"}),
    ("a = b ", {"a": "b "}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("=b", {"": "b"}),
    (":b", {"": "b"}),
    ("", {}),
    ("  \t", {}),
    ("# c\na=1", {"a": "1"}),
    ("  ! c\na=1", {"a": "1"}),
    ("a=1\n#b=2\\\nc=3", {"a": "1", "c": "3"}),
    ("a=one\\\n   two", {"a": "onetwo"}),
    ("a=one\\\n\nb=2", {"a": "one", "b": "2"}),
    ("a=one\\\n  # not a comment\nb=2", {"a": "one# not a comment", "b": "2"}),
    ("\\\n# comment\na=1", {"a": "1"}),
    ("a=one\\\r\n\ttwo\r\nb=2\rc=3", {"a": "onetwo", "b": "2", "c": "3"}),
    ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
    ("a=tail\\", {"a": "tail"}),
    ("a\\ b\\=c\\:d=v", {"a b=c:d": "v"}),
    ('a=\\t\\n\\r\\f\\q\\\\\\"', {"a": '\t\n\r\u000cq\\"'}),
    ("a=\\u00e9\\uD83D\\uDE00\\u0041", {"a": "\u00e9\ud83d\ude00A"}),
    ("a=\\uD83D", {"a": "\ud83d"}),
    ("a=\\u12g4", None),
    ("a=\\u12", None),
    ("a  =  b  c", {"a": "b  c"}),
    ("a : = b", {"a": "= b"}),
    ("a==b", {"a": "=b"}),
    ("a=b=c", {"a": "b=c"}),
    ("a=1\na=2", {"a": "2"}),
    ("\\#a=1", {"#a": "1"}),
    ("a\\\n  b=c", {"ab": "c"}),
    ("a=\u00e9", {"a": "\u00e9"}),
    ("a=x\\\n\\\ny", {"a": "xy"}),
    ("a\u000cb", {"a": "b"}),
    ("a=\u000bb", {"a": "\u000bb"}),
    ("log.dirs=/var/a b,/c\\\n  ,/d", {"log.dirs": "/var/a b,/c,/d"}),
    ("k=v # not a comment", {"k": "v # not a comment"}),
    ("a\\u003db=c", {"a=b": "c"}),
    ("a\\\\=b", {"a\\": "b"}),
    ("a=b\\\\\\\n c", {"a": "b\\c"}),
    ("\\\n\n", {}),
    ("\\\n  ", {}),
    ("a=1\n\\\r\n", {"a": "1"}),
]

WRITTEN_BY_JAVA = [
    ("a", "b", "a=b"),
    ("a b", " c d", "a\\ b=\\ c d"),
    ("a=b:c#d!e", "=:#!", "a\\=b\\:c\\#d\\!e=\\=\\:\\#\\!"),
    ("t", "\t\n\r\u000c\\", "t=\\t\\n\\r\\f\\\\"),
    ("\u00e9", "\u20ac\ud83d\ude00\u007f\u0001", "\\u00E9=\\u20AC\\uD83D\\uDE00\\u007F\\u0001"),
    ("", "", "="),
    ("k", "  two", "k=\\  two"),
    ("#k", "#v", "\\#k=\\#v"),
    ("k", "\ud83d", "k=\\uD83D"),
]


@pytest.mark.golden
@pytest.mark.parametrize(("text", "properties"), READ_BY_JAVA)
def test_texts_are_read_as_java_reads_them(text: str, properties: dict[str, str] | None) -> None:
    if properties is None:
        with pytest.raises(ConfigError, match="four hexadecimal digits"):
            parse_properties(text)
    else:
        assert parse_properties(text) == {key: _one_text(value) for key, value in properties.items()}


def _one_text(value: str) -> str:
    """The text with the halves of characters put together, which Java keeps apart."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@pytest.mark.golden
@pytest.mark.parametrize(("key", "value", "line"), WRITTEN_BY_JAVA)
def test_texts_are_written_as_java_writes_them(key: str, value: str, line: str) -> None:
    assert format_properties({key: _one_text(value)}) == f"{line}\n"


def test_comments_come_first_and_each_line_of_them_is_one() -> None:
    text = format_properties({"b": "1", "a": "2"}, ["Written by hand.\nTwice.", "", "\u20ac"])
    assert text == "#Written by hand.\n#Twice.\n#\n#\\u20AC\nb=1\na=2\n"
    assert list(parse_properties(text).items()) == [("b", "1"), ("a", "2")]


def test_of_several_lines_for_a_key_the_last_one_holds() -> None:
    assert parse_properties("a=1\nb=2\na=3") == {"a": "3", "b": "2"}


@pytest.mark.property
@given(st.dictionaries(st.text(), st.text()), st.lists(st.text()))
def test_what_is_written_is_read_back(properties: dict[str, str], comments: list[str]) -> None:
    text = format_properties(properties, comments)
    assert text.isascii()
    assert parse_properties(text) == properties


@pytest.mark.property
@given(st.text(alphabet="ab=: \t\f\\#!\n\ru0041é"))
def test_every_text_is_read_or_refused(text: str) -> None:
    try:
        properties = parse_properties(text)
    except ConfigError:
        return
    assert parse_properties(format_properties(properties)) == properties


@pytest.mark.parametrize("text", ["\\", "\\\n", "a=1\n\\\n"])
def test_a_backslash_alone_at_the_end_is_nothing(text: str) -> None:
    assert "" not in parse_properties(text)
