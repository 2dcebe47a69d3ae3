"""A directory that a thread holds for a block: its files are reached without its path."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from storage.errors import SymbolicLinkError
from storage.files import Files

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import Directory


@pytest.fixture
def held(tmp_path: Path) -> Directory:
    (tmp_path / "store" / "t-0").mkdir(parents=True)
    (tmp_path / "store" / "t-0" / "file").write_bytes(b"first")
    return Files().add_root(tmp_path / "store").at("t-0")


def replace(tmp_path: Path) -> None:
    (tmp_path / "store" / "t-0").rename(tmp_path / "store" / "t-0.0123-delete")
    (tmp_path / "store" / "t-0").mkdir()
    (tmp_path / "store" / "t-0" / "file").write_bytes(b"another")


def test_it_stays_the_same_directory_in_the_block_of_one_thread(held: Directory, tmp_path: Path) -> None:
    before = held.own_status()
    with held.held(), ThreadPoolExecutor(1) as other:
        replace(tmp_path)
        assert held.read("file") == b"first"
        with held.held():
            assert held.read("file") == b"first"
        assert held.status("missing") is None
        assert held.names() == ["file"]
        assert other.submit(held.read, "file").result() == b"another"
        assert held.own_status() != before, "this is about the path"
    assert held.read("file") == b"another"


def test_a_removed_directory_has_no_names(held: Directory, tmp_path: Path) -> None:
    with held.held():
        (tmp_path / "store" / "t-0" / "file").unlink()
        (tmp_path / "store" / "t-0").rmdir()
        with pytest.raises(FileNotFoundError):
            held.names()
        assert held.own_status() is None


def test_one_that_is_missing_or_a_link_is_an_error_where_it_is_used(held: Directory, tmp_path: Path) -> None:
    (tmp_path / "store" / "t-0").rename(tmp_path / "outside")
    with held.held():
        with pytest.raises(FileNotFoundError):
            held.read("file")
        (tmp_path / "store" / "t-0").symlink_to(tmp_path / "outside")
        with pytest.raises(SymbolicLinkError, match="t-0"):
            held.read("file")
    with held.held(), pytest.raises(SymbolicLinkError, match="t-0"):
        held.read("file")


def test_links_in_it_are_not_followed(held: Directory, tmp_path: Path) -> None:
    (tmp_path / "store" / "t-0" / "link").symlink_to(tmp_path / "store" / "t-0" / "file")
    with held.held(), pytest.raises(SymbolicLinkError, match="link"):
        held.read("link")


def test_nothing_is_left_open(held: Directory) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 -- names are all that is wanted
    for _ in range(2):
        with held.held(), held.held():
            assert held.read("file") == b"first"
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_each_use_in_the_block_takes_one_opening(held: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    system_open = os.open

    def counted(path: str, *arguments: int, **options: int) -> int:
        opened.append(path)
        return system_open(path, *arguments, **options)

    with held.held():
        monkeypatch.setattr(os, "open", counted)
        for _ in range(5):
            assert held.read("file") == b"first"
            assert held.status("file") is not None
        assert opened == ["file"] * 5
