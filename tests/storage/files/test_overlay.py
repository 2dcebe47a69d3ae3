"""An overlay behaves as the files would, and they never change."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from storage.files import Files
from storage.files.overlay import OverlayFiles
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.files import WritableFile

DIRECTORIES = ("/a", "/b")
PAGE_BYTES = 64 * 1024

directories = st.sampled_from(DIRECTORIES)
leaves = st.sampled_from(["one", "two"])
paths = st.sampled_from(["/a/one", "/a/two", "/b/one"])
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
    """The same is done to an overlay and to a copy of the files that are below it."""

    @initialize(below=st.dictionaries(paths, contents, min_size=1))
    def create(self, below: dict[str, bytes]) -> None:
        self.below, self.copy = MemoryFiles(), MemoryFiles()
        for files in (self.below, self.copy):
            for directory in DIRECTORIES:
                files.make_directory(directory)
            for path, data in below.items():
                with files.open_writing(path, create=True) as file:
                    file.write_at(0, [data])
        self.contents_below = dict(below)
        self.steps_below = self.below.steps
        self.overlay = OverlayFiles(self.below)
        self.held: tuple[WritableFile, WritableFile] | None = None

    def alike(self, act: Callable[[Files], object]) -> None:
        assert outcome(lambda: act(self.overlay)) == outcome(lambda: act(self.copy))

    def alike_in(self, path: str, act: Callable[[WritableFile], object], **how: bool) -> None:
        def do(files: Files) -> object:
            with files.open_writing(path, **how) as file:
                return act(file), file.size_bytes()

        self.alike(do)

    @rule(path=paths, create=st.booleans(), exclusive=st.booleans())
    def open_writing(self, path: str, *, create: bool, exclusive: bool) -> None:
        self.alike_in(path, lambda file: file.path, create=create, exclusive=exclusive)

    @rule(path=paths, position=near_pages, data=contents, more=contents)
    def write(self, path: str, position: int, data: bytes, more: bytes) -> None:
        self.alike_in(path, lambda file: file.write_at(position, [data, bytearray(more), memoryview(b"!")]))

    @rule(path=paths, sizes_bytes=st.lists(near_pages, min_size=1, max_size=3))
    def truncate(self, path: str, sizes_bytes: list[int]) -> None:
        def do(file: WritableFile) -> None:
            for size_bytes in sizes_bytes:
                file.truncate(size_bytes)

        self.alike_in(path, do)

    @rule(path=paths, position=near_pages, size_bytes=near_pages)
    def read_at(self, path: str, position: int, size_bytes: int) -> None:
        def do(files: Files) -> object:
            with files.open_reading(path) as file:
                return file.read_at(position, size_bytes), file.size_bytes(), file.path

        self.alike(do)

    @rule(path=paths)
    def hold(self, path: str) -> None:
        """Keep a file open, even without its name."""
        if self.copy.status(path) is not None:
            self.held = self.overlay.open_writing(path), self.copy.open_writing(path)

    @rule(position=near_pages, data=contents)
    def write_held(self, position: int, data: bytes) -> None:
        if self.held is not None:
            for file in self.held:
                file.write_at(position, [data])

    @rule(path=paths)
    def remove(self, path: str) -> None:
        self.alike(lambda files: files.remove(path))

    @rule(directory=directories, old=leaves, new=leaves)
    def rename(self, directory: str, old: str, new: str) -> None:
        self.alike(lambda files: files.rename(f"{directory}/{old}", f"{directory}/{new}"))

    @rule(directory=directories)
    def sync(self, directory: str) -> None:
        self.overlay.sync_directory(directory)

    @rule(path=paths)
    def status(self, path: str) -> None:
        def known(files: Files) -> object:
            found = files.status(path)
            return found and (found.size_bytes, found.is_directory)

        self.alike(known)

    @invariant()
    def names_and_contents_are_the_same(self) -> None:
        for directory in DIRECTORIES:
            names = sorted(self.copy.names(directory))
            assert sorted(self.overlay.names(directory)) == names
            for name in names:
                path = f"{directory}/{name}"
                assert self.overlay.read(path) == self.copy.read(path)
        if self.held is not None:
            ours, expected = self.held
            assert ours.size_bytes() == expected.size_bytes()
            assert ours.read_at(0, ours.size_bytes()) == expected.read_at(0, expected.size_bytes())

    @invariant()
    def the_files_below_are_as_they_were(self) -> None:
        assert self.below.steps == self.steps_below
        found = {f"{each}/{name}" for each in DIRECTORIES for name in self.below.names(each)}
        assert {path: self.below.read(path) for path in found} == self.contents_below


TestOverlayAgainstFiles = OverlayMachine.TestCase
TestOverlayAgainstFiles.settings = settings(max_examples=100, stateful_step_count=30)


@pytest.fixture
def overlay() -> OverlayFiles:
    files = MemoryFiles()
    files.make_directory("/a")
    with files.open_writing("/a/one", create=True) as file:
        file.write_at(0, [b"1" * 10])
    return OverlayFiles(files)


def test_what_a_writer_needs_and_a_planner_does_not_is_refused(overlay: OverlayFiles) -> None:
    with overlay.open_writing("/a/one") as file:
        file.sync()
        for act in (lambda: file.allocate(100), lambda: file.map(10)):
            with pytest.raises(io.UnsupportedOperation, match="/a/one"):
                act()
    for refused in (overlay.make_directory, overlay.remove_directory, overlay.lock):
        with pytest.raises(io.UnsupportedOperation, match="/a"):
            refused("/a")


def test_what_is_not_changed_is_asked_of_the_files(overlay: OverlayFiles) -> None:
    files = overlay._files
    assert overlay.status("/a/one") == files.status("/a/one")
    assert overlay.status("/a/none") is None
    assert overlay.status("/a") == files.status("/a")
    assert overlay.free_bytes("/a") == files.free_bytes("/a")
    with files.open_writing("/a/one") as file:
        file.write_at(0, [b"2"])
    assert overlay.read("/a/one") == b"2" + b"1" * 9


def test_an_identity_goes_with_the_file_and_is_nobody_elses(overlay: OverlayFiles) -> None:
    for name in ("/a/two", "/a/three"):
        overlay.open_writing(name, create=True).close()
    before = overlay.status("/a/two")
    overlay.rename("/a/two", "/a/four")
    after, other = overlay.status("/a/four"), overlay.status("/a/three")
    assert before is not None
    assert after is not None
    assert other is not None
    assert before.identity == after.identity != other.identity


def test_a_page_of_a_large_file_is_all_that_a_write_takes() -> None:
    files = MemoryFiles()
    with files.open_writing("/large", create=True) as file:
        file.truncate(PAGE_BYTES * 1000)
    overlay = OverlayFiles(files)
    with overlay.open_writing("/large") as file:
        file.write_at(PAGE_BYTES * 500 + 7, [b"x"])
        file.truncate(PAGE_BYTES * 900)
        assert file.read_at(PAGE_BYTES * 500 + 6, 3) == b"\0x\0"
    content = overlay._contents["/large"]
    assert content is not None
    assert len(content._pages) == 1


def test_real_files_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"before")
    overlay = OverlayFiles(Files())
    with overlay.open_writing(tmp_path / "one") as file:
        file.write_at(3, [b"XYZ and more"])
    overlay.rename(tmp_path / "one", tmp_path / "two")
    with overlay.open_writing(tmp_path / "three", create=True) as file:
        file.write_at(0, [b"new"])
    assert sorted(overlay.names(tmp_path)) == ["three", "two"]
    assert overlay.read(tmp_path / "two") == b"befXYZ and more"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert (tmp_path / "one").read_bytes() == b"before"
