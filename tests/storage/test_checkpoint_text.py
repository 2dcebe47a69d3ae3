"""The text of checkpoints is read as a broker reads it, and replaced whole or not at all."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.checkpoint_text import integer, read_checkpoint_data, write_checkpoint
from storage.errors import CorruptCheckpointError, NulFilledCheckpointError
from storage.log_dir.offset_entries import OffsetEntries
from storage.testing.faults import Cut, CutError, Effect, InterruptError
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from storage.files import Directory, Files

NAME = "checkpoint"
PATH = f"/logs/{NAME}"
OLD = [("a", 1)]
NEW = [("b", 2), ("c", 3)]


def logs_in_memory() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("/logs")
    files.sync_directory("/")
    return files


def read_entries(directory: Directory) -> list[tuple[str, int]]:
    entries = OffsetEntries(read_checkpoint_data(directory, NAME), directory.path_of(NAME))
    return [(name, number) for (name, _), number in entries.items()]


def write_entries(directory: Directory, entries: list[tuple[str, int]]) -> None:
    write_checkpoint(directory, NAME, [(name, 0, number) for name, number in entries])


def read(data: bytes) -> list[tuple[str, int]]:
    files = logs_in_memory()
    with files.open_writing(PATH, create=True) as file:
        file.write_at(0, [data])
    return read_entries(files.directory("/logs"))


@pytest.mark.parametrize(
    ("data", "entries"),
    [
        (b"", []),
        (b"0\n", []),
        (b"0\n0\n", []),
        (b"0\n1\na 0 1\n", [("a", 1)]),
        (b"0\n1\na 0 1", [("a", 1)]),
        (b"0\r\n1\r\na 0 1\r\n", [("a", 1)]),
        (b"0\n2\nb  0 -9223372036854775808\na\t0\v+9223372036854775807 \n", [("b", -(2**63)), ("a", 2**63 - 1)]),
        ("0\n1\n\N{GREEK SMALL LETTER ALPHA}\x85 0 1\n".encode(), [("\N{GREEK SMALL LETTER ALPHA}\x85", 1)]),
    ],
)
def test_what_a_broker_reads(data: bytes, entries: list[tuple[str, int]]) -> None:
    assert read(data) == entries


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"zero\n0\n",
        b" 0\n0\n",
        b"0\nmany\n",
        b"0\n1\n",
        b"0\n0\na 0 1\n",
        b"0\n2\na 0 1\n",
        b"0\n1\n\na 0 1\n",
        b"0\n1\na 0 1\n\n",
        b"\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 1 2\n",
        b"0\n1\n a 0 1\n",
        b"0\n1\na 2147483648 1\n",
        b"0\n1\na 0 one\n",
        b"0\n1\na 0 1_0\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n1\n\xff 0 1\n",
        b"0\n1\na 0 1\n\0\0\0",
    ],
)
def test_what_a_broker_does_not_read(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        read(data)
    assert caught.value.path == PATH
    assert not isinstance(caught.value, NulFilledCheckpointError)


def test_nothing_but_nul_is_a_case_of_its_own() -> None:
    with pytest.raises(NulFilledCheckpointError):
        read(bytes(13))


def test_no_file_is_no_entries() -> None:
    assert read_entries(logs_in_memory().directory("/logs")) == []


@pytest.mark.parametrize("bits", [32, 64])
def test_integers_keep_to_their_width(bits: int) -> None:
    assert integer(str(2 ** (bits - 1) - 1), bits=bits) == 2 ** (bits - 1) - 1
    assert integer(str(-(2 ** (bits - 1))), bits=bits) == -(2 ** (bits - 1))
    for text in (
        str(2 ** (bits - 1)),
        str(-(2 ** (bits - 1)) - 1),
        "",
        "-",
        " 1",
        "1 ",
        "0x1",
        "\N{ARABIC-INDIC DIGIT ONE}",
    ):
        with pytest.raises(ValueError, match="integer"):
            integer(text, bits=bits)


NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)


@given(st.lists(st.tuples(NAMES, st.integers(-(2**63), 2**63 - 1)), unique_by=lambda entry: entry[0]))
def test_what_is_written_is_read(entries: list[tuple[str, int]]) -> None:
    files = logs_in_memory()
    write_entries(files.directory("/logs"), entries)
    assert read_entries(files.directory("/logs")) == entries


def steps_of_a_write() -> range:
    files = logs_in_memory()
    write_entries(files.directory("/logs"), OLD)
    before = files.steps
    write_entries(files.directory("/logs"), NEW)
    return range(before, files.steps)


@pytest.mark.parametrize("step", steps_of_a_write())
@pytest.mark.parametrize("effect", Effect)
def test_a_cut_leaves_the_old_or_the_new(step: int, effect: Effect) -> None:
    for seed in range(8):
        files = logs_in_memory()
        write_entries(files.directory("/logs"), OLD)
        files.cut = Cut(step, effect, seed)
        with pytest.raises((CutError, OSError, MemoryError, InterruptError)) as raised:
            write_entries(files.directory("/logs"), NEW)
        if effect is not Effect.DEATH:
            assert read_entries(files.directory("/logs")) in (OLD, NEW)
            is_full = isinstance(raised.value, OSError) and raised.value.errno == errno.ENOSPC
            assert not is_full or read_entries(files.directory("/logs")) == OLD
            assert [name for name in files.names("/logs") if name != "checkpoint"] == []
        select_retained_records: list[Files] = [files.after_process_death(), files.after_power_loss(seed)]
        for survivor in select_retained_records:
            assert read_entries(survivor.directory("/logs")) in (OLD, NEW)
            write_entries(survivor.directory("/logs"), NEW)
            assert read_entries(survivor.directory("/logs")) == NEW


def test_what_was_written_survives_a_loss_of_power() -> None:
    for seed in range(20):
        files = logs_in_memory()
        write_entries(files.directory("/logs"), OLD)
        write_entries(files.directory("/logs"), NEW)
        assert read_entries(files.after_power_loss(seed).directory("/logs")) == NEW
