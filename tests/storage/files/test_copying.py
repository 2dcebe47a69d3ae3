"""Copies of files: all bytes and no others, in new files, whether or not the file system can share blocks."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from storage.errors import RecordsCutOffError
from storage.files import FileRange, Files, copied_bits, copy_ranges, shared_bits
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import Directory

DATA = bytes(range(256)) * 300


def memory(_: Path) -> tuple[Directory, Directory]:
    files = MemoryFiles()
    files.make_directory("/a")
    files.make_directory("/b")
    return files.directory("/a"), files.directory("/b")


def disk(path: Path) -> tuple[Directory, Directory]:
    (path / "a").mkdir()
    (path / "b").mkdir()
    return Files().directory(path / "a"), Files().directory(path / "b")


@pytest.fixture(params=[memory, disk])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Directory, Directory]:
    source, target = request.param(tmp_path)
    source.replace("f", DATA)
    source.replace("g", DATA[::-1])
    return source, target


def test_a_copy_has_the_bytes_of_its_ranges(places: tuple[Directory, Directory]) -> None:
    source, target = places
    told: list[int] = []
    copy_ranges([FileRange(source, "f", 0, len(DATA))], target, "whole", modified_ms=1_234, tell=told.append)
    copy_ranges([FileRange(source, "f", 0, 1000)], target, "first")
    copy_ranges([FileRange(source, "f", 7, 500), FileRange(source, "g", 3, 900)], target, "both")
    copy_ranges([], target, "empty")
    assert target.read("whole") == DATA
    assert sum(told) == len(DATA)
    status = target.status("whole")
    assert status is not None
    assert status.modified_ms == 1_234
    assert target.read("first") == DATA[:1000]
    assert target.read("both") == DATA[7:500] + DATA[::-1][3:900]
    assert target.read("empty") == b""
    assert source.read("f") == DATA


def test_no_file_is_overwritten(places: tuple[Directory, Directory]) -> None:
    source, target = places
    target.replace("f", b"mine")
    with pytest.raises(FileExistsError):
        copy_ranges([FileRange(source, "f", 0, 5)], target, "f")
    with pytest.raises(FileExistsError):
        source.link("f", target, "f")
    assert target.read("f") == b"mine"


def test_a_source_that_became_shorter_leaves_no_copy(places: tuple[Directory, Directory]) -> None:
    source, target = places
    with pytest.raises(RecordsCutOffError, match="has become shorter"):
        copy_ranges([FileRange(source, "f", 0, len(DATA) + 1)], target, "f")
    assert target.status("f") is None


def test_an_interrupted_copy_is_removed(places: tuple[Directory, Directory]) -> None:
    source, target = places

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_ranges([FileRange(source, "f", 0, len(DATA))], target, "f", tell=interrupt)
    assert target.status("f") is None


def test_a_link_is_the_same_file(places: tuple[Directory, Directory]) -> None:
    source, target = places
    source.link("f", target, "linked")
    ours, theirs = source.status("f"), target.status("linked")
    assert ours is not None
    assert theirs is not None
    assert ours.identity == theirs.identity


def test_a_file_system_that_copies_nothing_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "copy_file_range", refuse)
    source, target = disk(tmp_path)
    source.replace("f", DATA)
    copy_ranges([FileRange(source, "f", 1, len(DATA))], target, "f")
    assert target.read("f") == DATA[1:]


@pytest.mark.parametrize(
    ("directory_mode", "file_mode", "bits"),
    [
        (0o755, 0o644, 0o777),
        (0o755, 0o640, 0o770),
        (0o750, 0o644, 0o770),
        (0o755, 0o604, 0o707),
        (0o711, 0o644, 0o700),
        (0o744, 0o644, 0o700),
        (0o700, 0o600, 0o700),
    ],
)
def test_copies_are_as_open_as_the_most_closed_of_their_sources(
    tmp_path: Path, directory_mode: int, file_mode: int, bits: int
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
        (tmp_path / name / "f").chmod(0o666)
    (tmp_path / "b" / "f").chmod(file_mode)
    (tmp_path / "b").chmod(directory_mode)
    directories = [Files().directory(tmp_path / name) for name in ("a", "b", "none")]
    assert copied_bits(directories) == bits
    assert shared_bits(directories[1]) == 0o700 | file_mode


@pytest.mark.parametrize(("mode", "bits"), [(0o640, 0o700), (0o604, 0o707), (0o644, 0o777)])
def test_what_is_for_another_group_is_not_for_that_of_the_copies(mode: int, bits: int) -> None:
    files = MemoryFiles()
    files.make_directory("/a")
    files.open_writing("/a/f", create=True).close()
    files.set_access("/a", 1234, os.getegid() + 1, 0o755)
    files.set_access("/a/f", 1234, os.getegid() + 1, mode)
    assert copied_bits([files.directory("/a")]) == bits


def test_what_is_made_in_a_limited_directory_has_no_other_bits(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    log_dir = Files().add_root(tmp_path).limited(0o750)
    directory = log_dir.at("t-0")
    directory.make()
    for name in (f"{0:020}.log", f"{0:020}.index", "f"):
        directory.open_writing(name, create=True).close()
    directory.replace("f", b"x")
    log_dir.replace("g", b"y")
    modes = {each.stat().st_mode & 0o777 for each in tmp_path.rglob("*")}
    assert modes == {0o750, 0o640}
