"""The kernel reads the lines of checkpoints, of offsets and of epochs, as the parser for dumps does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.checkpoint_text import integer, parse_checkpoint
from storage.errors import CorruptCheckpointError
from storage.log.epoch_entries import EpochEntries, EpochStart
from storage.log_dir.offset_entries import OffsetEntries

PATH = "/d/some-checkpoint"
BLANKS = st.text(" \t\v\f", min_size=1, max_size=3)
TOPICS = st.sampled_from(["t", "orders", "o", "é", "-", "a" * 249, "\x85", "\u2028"])
NUMBERS = st.one_of(
    st.integers(-(2**31) - 1, 2**31),
    st.integers(-(2**63) - 1, 2**63),
    st.sampled_from([0, 2**64, 10**19, 10**20 - 1, 10**20]),
).map(str) | st.sampled_from(["+7", "-0", "007", "٣", "1_0", "0x1", "--1", "", "+", "9" * 21])
SMALL = st.integers(0, 5).map(str)
LINES = st.one_of(
    st.tuples(TOPICS, st.just(" "), SMALL, st.just(" "), SMALL, st.just("")),
    st.tuples(TOPICS, BLANKS, NUMBERS, BLANKS, NUMBERS, st.text(" \t\v\f", max_size=2)),
).map("".join)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def entry(columns: list[str]) -> tuple[tuple[str, int], int]:
    topic, partition, offset = columns
    return (topic, integer(partition, bits=32)), integer(offset, bits=64)


def expected(data: bytes) -> dict[tuple[str, int], int] | str:
    try:
        return dict(parse_checkpoint(data, PATH, entry))
    except CorruptCheckpointError as error:
        return str(error)


def found(data: bytes) -> dict[tuple[str, int], int] | str:
    try:
        entries = OffsetEntries(data, PATH)
    except CorruptCheckpointError as error:
        return str(error)
    assert all(entries[partition] == entries.get(partition) == offset for partition, offset in entries.items())
    return dict(entries)


@given(st.lists(LINES, max_size=40), ENDS, st.sampled_from(["", "last"]), st.sampled_from([0, 0, 0, 1]))
def test_what_it_reads_is_what_the_parser_reads(lines: list[str], end: str, ended: str, more: int) -> None:
    text = end.join(["0", str(len(lines) + more), *lines]) + (end if ended else "")
    assert found(text.encode()) == expected(text.encode())


def epoch(columns: list[str]) -> EpochStart:
    number, offset = columns
    start = EpochStart(integer(number, bits=32), integer(offset, bits=64))
    if min(start) < 0:
        raise ValueError(start)
    return start


def epochs_expected(data: bytes) -> tuple[list[EpochStart], int] | str:
    kept: list[EpochStart] = []
    lines = 0
    try:
        for added in parse_checkpoint(data, PATH, epoch):
            lines += 1
            if kept and kept[-1].epoch == added.epoch and kept[-1].offset <= added.offset:
                continue
            while kept and (kept[-1].epoch >= added.epoch or kept[-1].offset >= added.offset):
                kept.pop()
            kept.append(added)
    except CorruptCheckpointError as error:
        return str(error)
    return kept, lines - len(kept)


def epochs_found(data: bytes) -> tuple[list[EpochStart], int] | str:
    try:
        entries = EpochEntries(data, PATH)
    except CorruptCheckpointError as error:
        return str(error)
    assert entries == tuple(entries) == entries[:]
    assert entries[-3:] == tuple(entries)[-3:]
    assert [entries[index] for index in range(-len(entries), 0)] == list(entries)
    return list(entries), entries.contradicted


EPOCH_LINES = st.one_of(
    st.tuples(st.integers(0, 9).map(str), st.just(" "), st.integers(0, 9).map(str), st.just("")),
    st.tuples(NUMBERS, BLANKS, NUMBERS, st.text(" \t\v\f", max_size=2)),
).map("".join)


@given(st.lists(EPOCH_LINES, max_size=40) | st.lists(EPOCH_LINES.filter(str.isascii), max_size=3), ENDS)
def test_epochs_are_read_as_the_parser_reads_them(lines: list[str], end: str) -> None:
    text = end.join(["0", str(len(lines)), *lines])
    assert epochs_found(text.encode()) == epochs_expected(text.encode())


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_epochs_that_others_contradict_are_passed_over(starts: list[tuple[int, int]]) -> None:
    text = "".join(f"{number} {offset}\n" for number, offset in starts)
    data = f"0\n{len(starts)}\n{text}".encode()
    assert epochs_found(data) == epochs_expected(data)


@given(st.text("0123 t\r\n\t-+é\x00", max_size=60) | st.binary(max_size=30).map(lambda data: data.decode("latin-1")))
def test_any_text_is_read_or_refused_alike(text: str) -> None:
    assert found(text.encode()) == expected(text.encode())
    assert epochs_found(text.encode()) == epochs_expected(text.encode())


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_alike(data: bytes) -> None:
    assert found(data) == expected(data)
    assert epochs_found(data) == epochs_expected(data)


@pytest.mark.parametrize("topic", ["a" * 1020, "a" * 1021, "é" * 1020, "é" * 1021])
def test_a_line_may_be_as_long_as_for_the_parser(topic: str) -> None:
    data = f"0\n1\n{topic} 0 0\n".encode()
    assert found(data) == expected(data)
    assert isinstance(found(data), str) == (len(topic) > 1020)


def test_many_partitions_are_all_found_and_the_last_line_of_one_counts() -> None:
    partitions = [(f"topic-{number % 97}", number // 97) for number in range(5000)]
    lines = [f"{topic} {partition} {number}" for number, (topic, partition) in enumerate(partitions)]
    again = [f"{topic} {partition} 7" for topic, partition in partitions[::3]]
    entries = OffsetEntries("\n".join(["0", str(len(lines) + len(again)), *lines, *again]).encode(), PATH)
    assert list(entries) == partitions
    assert [entries[partition] for partition in partitions] == [
        7 if number % 3 == 0 else number for number in range(5000)
    ]


@pytest.mark.parametrize("partition", [("t", 1), ("u", 0), ("t", 2**40), ("t\udc80", 0), ("", 0)])
def test_a_partition_without_a_line_is_not_found(partition: tuple[str, int]) -> None:
    entries = OffsetEntries(b"0\n1\nt 0 5\n", PATH)
    assert entries == {("t", 0): 5}
    assert partition not in entries
    assert entries.get(partition) is None
    assert entries.get(partition, 3) == 3
    with pytest.raises(KeyError):
        entries[partition]
