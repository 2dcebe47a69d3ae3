"""Names of partitions' directories are read as a broker reads them and made as a broker makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.log_dir.names import DirectoryName, DirectoryState, parse_directory_name

HEX = "0123456789abcdef0123456789abcdef"
CURRENT, DELETE, STRAY, FUTURE = DirectoryState

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in {".", ".."})
partitions = st.integers(0, 2**31 - 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", DirectoryName("orders", 0)),
        ("a-1-2", DirectoryName("a-1", 2)),
        ("t--1", DirectoryName("t-", 1)),
        ("--0", DirectoryName("-", 0)),
        ("t-2147483647", DirectoryName("t", 2147483647)),
        (f"t-0.{HEX}-delete", DirectoryName("t", 0, DELETE, HEX)),
        (f"t-0.{HEX}-stray", DirectoryName("t", 0, STRAY, HEX)),
        (f"t-0.{HEX}-future", DirectoryName("t", 0, FUTURE, HEX)),
        ("a.b-1.c-2.x-delete", DirectoryName("a.b-1.c", 2, DELETE, "x")),
        ("a-0.b-1", DirectoryName("a-0.b", 1)),
        ("t-0.x-1-delete", DirectoryName("t", 0, DELETE, "x-1")),
    ],
)
def test_what_is_read(name: str, expected: DirectoryName) -> None:
    assert parse_directory_name(name) == expected
    assert str(expected) == name


@pytest.mark.parametrize(
    "name",
    [
        *("lost+found", "orders", "-0", "orders-", "orders-x", "orders-00", "orders-+1", "t-2147483648", "..-0"),
        *("t-0-delete", "t-0.-delete", f"t.{HEX}-delete", f"t-0.{HEX}-gone", f"{'x' * 250}-0", "a b-0", "", "t-1\n"),
    ],
)
def test_what_is_no_partition(name: str) -> None:
    assert parse_directory_name(name) is None


@pytest.mark.property
@given(topics, partitions, st.sampled_from(DirectoryState))
def test_every_name_reads_back(topic: str, partition: int, state: DirectoryState) -> None:
    name = DirectoryName(topic, partition, state, HEX if state else "")
    assert parse_directory_name(str(name)) == name


@pytest.mark.property
@given(topics, partitions, st.sampled_from([DELETE, STRAY]))
def test_the_topic_of_a_long_name_is_cut(topic: str, partition: int, state: DirectoryState) -> None:
    suffix = f"-{partition}.{HEX}{state}"
    name = str(DirectoryName(topic, partition).becoming(state, HEX))
    assert name == topic[: 255 - len(suffix)] + suffix
    assert parse_directory_name(name) is not None


def test_the_name_of_a_copy_is_not_cut() -> None:
    name = DirectoryName("x" * 249, 7).becoming(FUTURE, HEX)
    assert str(name) == f"{'x' * 249}-7.{HEX}-future"
