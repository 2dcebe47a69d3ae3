"""An overlay behaves as the files would, and they never change."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from storage.files import Files
from storage.files.overlay import OverlayDirectory
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.files import Directory, WritableFile

PAGE_BYTES = 64 * 1024

names = st.sampled_from(["one", "two", "three"])
near_pages = st.one_of(
    st.integers(0, 300),
    st.builds(lambda page, shift: max(page * PAGE_BYTES + shift, 0), st.integers(0, 3), st.integers(-3, 3)),
)
contents = st.builds(lambda byte, size_bytes: bytes([byte]) * size_bytes, st.integers(1, 255), near_pages)


def outcome(act: Callable[[], object]) -> object:
    """What comes of it, an error being one of the things that can."""
    try:
        return act()
    except OSError as error:
        return type(error), error.errno, error.filename


@pytest.mark.property
class OverlayMachine(RuleBasedStateMachine):
    """The same is done to an overlay and to a copy of the directory that is below it."""

    @initialize(below=st.dictionaries(names, contents, min_size=1))
    def create(self, below: dict[str, bytes]) -> None:
        self.files = MemoryFiles()
        self.below, self.copy = self.files.directory("/a"), MemoryFiles().directory("/a")
        for directory in (self.below, self.copy):
            directory.make()
            for name, data in below.items():
                with directory.open_writing(name, create=True) as file:
                    file.write_at(0, [data])
        self.contents_below = dict(below)
        self.steps_below = self.files.steps
        self.overlay = OverlayDirectory(self.below)
        self.held: tuple[WritableFile, WritableFile] | None = None

    def alike(self, act: Callable[[Directory], object]) -> None:
        assert outcome(lambda: act(self.overlay)) == outcome(lambda: act(self.copy))

    def alike_in(self, name: str, act: Callable[[WritableFile], object], **how: bool) -> None:
        def do(directory: Directory) -> object:
            with directory.open_writing(name, **how) as file:
                return act(file), file.size_bytes()

        self.alike(do)

    @rule(name=names, create=st.booleans(), exclusive=st.booleans())
    def open_writing(self, name: str, *, create: bool, exclusive: bool) -> None:
        self.alike_in(name, lambda file: file.path, create=create, exclusive=exclusive)

    @rule(name=names, position=near_pages, data=contents, more=contents)
    def write(self, name: str, position: int, data: bytes, more: bytes) -> None:
        self.alike_in(name, lambda file: file.write_at(position, [data, bytearray(more), memoryview(b"!")]))

    @rule(name=names, sizes_bytes=st.lists(near_pages, min_size=1, max_size=3))
    def truncate(self, name: str, sizes_bytes: list[int]) -> None:
        def do(file: WritableFile) -> None:
            for size_bytes in sizes_bytes:
                file.truncate(size_bytes)

        self.alike_in(name, do)

    @rule(name=names, position=near_pages, size_bytes=near_pages)
    def read_at(self, name: str, position: int, size_bytes: int) -> None:
        def do(directory: Directory) -> object:
            with directory.open_reading(name) as file:
                return file.read_at(position, size_bytes), file.size_bytes(), file.path

        self.alike(do)

    @rule(name=names)
    def hold(self, name: str) -> None:
        """Keep a file open, even without its name."""
        if self.copy.status(name) is not None:
            self.held = self.overlay.open_writing(name), self.copy.open_writing(name)

    @rule(position=near_pages, data=contents)
    def write_held(self, position: int, data: bytes) -> None:
        if self.held is not None:
            for file in self.held:
                file.write_at(position, [data])

    @rule(name=names)
    def remove(self, name: str) -> None:
        self.alike(lambda directory: directory.remove(name))

    @rule(old=names, new=names)
    def rename(self, old: str, new: str) -> None:
        self.alike(lambda directory: directory.rename(old, new))

    @rule()
    def sync(self) -> None:
        self.overlay.sync()

    @rule(name=names)
    def status(self, name: str) -> None:
        def known(directory: Directory) -> object:
            found = directory.status(name)
            return found and (found.size_bytes, found.is_directory)

        self.alike(known)

    @invariant()
    def names_and_contents_are_the_same(self) -> None:
        found = sorted(self.copy.names())
        assert sorted(self.overlay.names()) == found
        for name in found:
            assert self.overlay.read(name) == self.copy.read(name)
        if self.held is not None:
            ours, expected = self.held
            assert ours.size_bytes() == expected.size_bytes()
            assert ours.read_at(0, ours.size_bytes()) == expected.read_at(0, expected.size_bytes())

    @invariant()
    def the_files_below_are_as_they_were(self) -> None:
        assert self.files.steps == self.steps_below
        assert {name: self.below.read(name) for name in self.below.names()} == self.contents_below


TestOverlayAgainstFiles = OverlayMachine.TestCase
TestOverlayAgainstFiles.settings = settings(max_examples=100, stateful_step_count=30)


@pytest.fixture
def below() -> Directory:
    directory = MemoryFiles().directory("/a")
    directory.make()
    with directory.open_writing("one", create=True) as file:
        file.write_at(0, [b"1" * 10])
    return directory


def test_a_plan_refuses_operations_that_only_a_writer_needs(below: Directory) -> None:
    overlay = OverlayDirectory(below)
    with overlay.open_writing("one") as file:
        file.sync()
        for act in (lambda: file.allocate(100), lambda: file.region(10)):
            with pytest.raises(io.UnsupportedOperation, match="/a/one"):
                act()
    into = below.at("elsewhere")
    for refused in (
        overlay.make,
        lambda: overlay.remove_directory("d"),
        lambda: overlay.lock(".lock"),
        lambda: overlay.rename("one", "one", into),
    ):
        with pytest.raises(io.UnsupportedOperation, match="/a"):
            refused()


def test_the_directory_below_answers_for_unchanged_files(below: Directory) -> None:
    overlay = OverlayDirectory(below)
    assert overlay.status("one") == below.status("one")
    assert overlay.status("none") is None
    assert overlay.own_status() == below.own_status()
    assert overlay.free_bytes() == below.free_bytes()
    with below.open_writing("one") as file:
        file.write_at(0, [b"2"])
    assert overlay.read("one") == b"2" + b"1" * 9


def test_an_identity_goes_with_the_file_and_no_other_file_has_it(below: Directory) -> None:
    overlay = OverlayDirectory(below)
    for name in ("two", "three"):
        overlay.open_writing(name, create=True).close()
    before = overlay.status("two")
    overlay.rename("two", "four")
    after, other = overlay.status("four"), overlay.status("three")
    assert before is not None
    assert after is not None
    assert other is not None
    assert before.identity == after.identity != other.identity


def test_a_page_of_a_large_file_is_all_that_a_write_takes(below: Directory) -> None:
    with below.open_writing("large", create=True) as file:
        file.truncate(PAGE_BYTES * 1000)
    overlay = OverlayDirectory(below)
    with overlay.open_writing("large") as file:
        file.write_at(PAGE_BYTES * 500 + 7, [b"x"])
        file.truncate(PAGE_BYTES * 900)
        assert file.read_at(PAGE_BYTES * 500 + 6, 3) == b"\0x\0"
    content = overlay._contents["large"]
    assert content is not None
    assert len(content._pages) == 1


def test_real_files_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"before")
    overlay = OverlayDirectory(Files().directory(tmp_path))
    with overlay.open_writing("one") as file:
        file.write_at(3, [b"XYZ and more"])
    overlay.rename("one", "two")
    with overlay.open_writing("three", create=True) as file:
        file.write_at(0, [b"new"])
    assert sorted(overlay.names()) == ["three", "two"]
    assert overlay.read("two") == b"befXYZ and more"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert (tmp_path / "one").read_bytes() == b"before"
