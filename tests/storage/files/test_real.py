"""Symbolic links, FIFOs and directories in the place of files: nothing of a store is reached through a link."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage.errors import SpecialFileError, SymbolicLinkError
from storage.files import Files, NamedFiles, replace_file
from storage.files.overlay import OverlayDirectory

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = b"what lies outside"


@pytest.fixture
def files(store: Path) -> Files:
    found = Files()
    found.add_root(store)
    return found


@pytest.fixture
def victims(tmp_path: Path) -> Path:
    """Make a directory outside of the store."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(SECRET)
    return tmp_path / "outside"


@pytest.fixture
def store(tmp_path: Path, victims: Path) -> Path:
    """Make a store that its user reaches through a link, and that has links in it."""
    (tmp_path / "data" / "t-0").mkdir(parents=True)
    store = tmp_path / "store"
    store.symlink_to(tmp_path / "data")
    (store / "t-0" / "file").write_bytes(b"inside")
    (store / "t-0" / "link").symlink_to(victims / "file")
    (store / "t-0" / "dangling").symlink_to(victims / "new")
    (store / "link").symlink_to(victims / "file")
    (store / "t-1").symlink_to(victims)
    return store


def seen(victims: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in victims.iterdir()}


OPERATIONS: dict[str, Callable[[Files, str], object]] = {
    "open_reading": lambda files, path: files.open_reading(path),
    "open_writing": lambda files, path: files.open_writing(path),
    "create": lambda files, path: files.open_writing(path, create=True),
    "read": lambda files, path: files.read(path),
    "lock": lambda files, path: files.lock(path),
    "is_locked": lambda files, path: files.is_locked(path),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", ["link", "t-0/link", "t-0/dangling", "t-1/file"])
def test_no_file_is_opened_through_a_link(files: Files, store: Path, victims: Path, name: str, operation: str) -> None:
    with pytest.raises(SymbolicLinkError, match="is a symbolic link, which kafkafs does not follow") as caught:
        OPERATIONS[operation](files, str(store / name))
    link = store / name if name != "t-1/file" else store / "t-1"
    assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, str(link))
    assert seen(victims) == {"file": SECRET}


@pytest.mark.parametrize(
    "operation",
    [
        lambda files, path: files.remove(f"{path}/file"),
        lambda files, path: files.rename(f"{path}/file", f"{path}/other"),
        lambda files, path: files.make_directory(f"{path}/directory"),
        lambda files, path: files.status(f"{path}/file"),
        lambda files, path: files.names(path),
        lambda files, path: files.directory(path).strangers(),
        lambda files, path: files.sync_directory(path),
        lambda files, path: replace_file(files, f"{path}/file", b"new"),
    ],
    ids=["remove", "rename", "make_directory", "status", "names", "strangers", "sync_directory", "replace_file"],
)
def test_a_partition_directory_that_is_a_link_is_not_entered(
    files: Files, store: Path, victims: Path, operation: Callable[[Files, str], object]
) -> None:
    with pytest.raises(SymbolicLinkError) as caught:
        operation(files, str(store / "t-1"))
    assert caught.value.filename == str(store / "t-1")
    assert seen(victims) == {"file": SECRET}


def test_a_file_system_says_of_a_link_that_it_is_one(files: Files, store: Path) -> None:
    for name in ("link", "t-1", "t-0/link", "t-0/dangling"):
        status = files.status(store / name)
        assert status is not None
        assert (status.is_link, status.is_directory) == (True, False)
    inside = files.status(store / "t-0" / "file")
    assert inside is not None
    assert (inside.is_link, inside.size_bytes) == (False, 6)
    assert sorted(files.directory(store).strangers()) == ["link", "t-1"]
    assert sorted(files.directory(store / "t-0").strangers({"file": False}.__getitem__)) == ["dangling", "link"]


def test_the_directory_that_a_user_named_may_be_a_link(files: Files, store: Path) -> None:
    status = files.status(store)
    assert status is not None
    assert (status.is_directory, status.is_link) == (True, False)
    assert set(files.names(store)) == {"t-0", "link", "t-1"}
    files.sync_directory(store)
    assert files.read(store / "t-0" / "file") == b"inside"
    with pytest.raises(SymbolicLinkError):
        Files().names(store)


def test_a_reader_sees_a_directory_that_comes_in_the_place_of_the_one_it_named(tmp_path: Path) -> None:
    """A log directory that was copied to a new disk, or mounted again, is what its path leads to."""
    path = tmp_path / "log"
    (path / "t-0").mkdir(parents=True)
    (path / "t-0" / "file").write_bytes(b"old")
    directory = Files().directory(path)
    partition = directory.at("t-0")
    assert partition.read("file") == b"old"
    path.rename(tmp_path / "away")
    assert not partition.exists()
    with pytest.raises(FileNotFoundError):
        partition.read("file")
    (path / "t-0").mkdir(parents=True)
    (path / "t-1").mkdir()
    (path / "t-0" / "file").write_bytes(b"new")
    assert partition.read("file") == b"new"
    assert sorted(directory.names()) == ["t-0", "t-1"]


def test_a_writer_stays_in_the_directory_that_it_locked(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.mkdir()
    directory = Files().directory(path)
    lock = directory.lock(".lock")
    path.rename(tmp_path / "away")
    path.mkdir()
    directory.replace("file", b"written")
    lock.release()
    assert (tmp_path / "away" / "file").read_bytes() == b"written"
    assert not list(path.iterdir())


def test_a_partition_is_gone_when_the_directory_that_was_locked_is_moved(tmp_path: Path) -> None:
    """A writer is refused, instead of storing records where no reader of the path finds them."""
    path = tmp_path / "log"
    (path / "t-0").mkdir(parents=True)
    directory = Files().directory(path)
    partition = directory.at("t-0")
    lock = directory.lock(".lock")
    assert partition.exists()
    path.rename(tmp_path / "away")
    assert not partition.exists()
    (path / "t-0").mkdir(parents=True)
    assert not partition.exists()
    (path / "t-0").rmdir()
    path.rmdir()
    (tmp_path / "away").rename(path)
    assert partition.exists()
    lock.release()


def test_a_released_lock_leaves_no_descriptor(tmp_path: Path) -> None:
    directory = Files().directory(tmp_path)
    assert directory.status("x") is None
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    first, second = directory.lock(".lock"), directory.lock(".lock")
    first.release()
    assert directory.status("x") is None
    second.release()
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_a_relative_path_stays_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "file").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    directory = Files().directory("log")
    monkeypatch.chdir("log")
    assert (directory.read("file"), directory.path) == (b"x", "log")
    below = Files().directory("file/nothing")
    for refused in (below.make, below.own_status, below.names, lambda: below.lock(".lock")):
        with pytest.raises(NotADirectoryError) as error:
            refused()
        assert error.value.filename.removesuffix("/.lock") == "file/nothing"


def test_reading_keeps_no_descriptor(files: Files, store: Path) -> None:
    """A descriptor would keep a disk from being unmounted while a reader does nothing."""
    directory = files.directory(store)
    directory.at("t-0").read("file")
    directory.names()
    assert os.path.realpath(store) not in {os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()}


def test_a_link_is_removed_and_replaced_itself(files: Files, store: Path, victims: Path) -> None:
    replace_file(files, store / "t-0" / "link", b"new")
    assert (store / "t-0" / "link").read_bytes() == b"new"
    assert not (store / "t-0" / "link").is_symlink()
    files.remove(store / "link")
    assert not (store / "link").is_symlink()
    (store / "t-0" / "new.tmp").symlink_to(victims / "file")
    replace_file(files, store / "t-0" / "new", b"new")
    assert (store / "t-0" / "new").read_bytes() == b"new"
    assert not os.path.lexists(store / "t-0" / "new.tmp")
    assert seen(victims) == {"file": SECRET}


def test_a_file_that_rested_is_not_woken_through_a_link(files: Files, store: Path, tmp_path: Path) -> None:
    """Not even if the link leads to the very same file."""
    with files.open_writing(store / "t-0" / "file") as file:
        file.rest()
        (store / "t-0" / "file").rename(tmp_path / "moved")
        (store / "t-0" / "file").symlink_to(tmp_path / "moved")
        with pytest.raises(SymbolicLinkError):
            file.wake()


def test_a_plan_opens_no_link_either(files: Files, store: Path) -> None:
    with pytest.raises(SymbolicLinkError):
        OverlayDirectory(files.directory(store / "t-0")).open_writing("link")
    assert sorted(OverlayDirectory(files.directory(store / "t-0")).strangers()) == ["dangling", "link"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fifo_is_refused_and_not_waited_for(files: Files, store: Path, operation: str) -> None:
    os.mkfifo(store / "t-0" / "fifo")
    with pytest.raises(OSError, match="is not a regular file, and kafkafs opens no others"):
        OPERATIONS[operation](files, str(store / "t-0" / "fifo"))


def test_errors_keep_their_kind_and_their_path(files: Files, store: Path) -> None:
    path = store / "t-0" / "missing"
    with pytest.raises(FileNotFoundError) as missing:
        files.read(path)
    with pytest.raises(FileExistsError) as existing:
        files.open_writing(store / "t-0" / "file", create=True, exclusive=True)
    with pytest.raises(IsADirectoryError) as directory:
        files.read(store / "t-0")
    with pytest.raises(NotADirectoryError) as no_directory:
        files.names(store / "t-0" / "file")
    errors = (missing, existing, directory, no_directory)
    assert [str(each.value.filename) for each in errors] == [
        str(path),
        str(store / "t-0" / "file"),
        str(store / "t-0"),
        str(store / "t-0" / "file"),
    ]
    assert files.status(path) is None
    assert files.status(store / "t-9" / "file") is None


def test_files_that_a_user_named_are_reached_through_links(store: Path) -> None:
    assert NamedFiles().read(store / "t-0" / "link") == SECRET
    assert NamedFiles().names(store / "t-1") == ["file"]
    status = NamedFiles().status(store / "link")
    assert status is not None
    assert (status.is_link, status.size_bytes) == (False, len(SECRET))


def test_a_link_is_told_across_processes() -> None:
    error = pickle.loads(pickle.dumps(SymbolicLinkError("/store/link")))
    assert isinstance(error, SymbolicLinkError)
    assert (error.errno, error.filename) == (errno.ELOOP, "/store/link")


def test_a_directory_is_at_its_path_until_another_takes_its_place(files: Files, store: Path) -> None:
    directory = files.directory(store)
    partition = directory.at("t-0")
    for each in (directory, partition, partition.at("below"), OverlayDirectory(partition)):
        status = each.own_status()
        if status is None:
            Path(each.path).mkdir()
            status = each.own_status()
        assert status is not None
        assert each.is_at_path(status.identity)
        assert not each.is_at_path((0, 0))
        path, away = Path(each.path), Path(each.path).with_name("away")
        path.rename(away)
        assert not each.is_at_path(status.identity)
        path.write_bytes(b"")
        assert not each.is_at_path(status.identity)
        path.unlink()
        path.symlink_to(away)
        assert each.is_at_path(status.identity) == (each is directory)  # its user may reach it through a link
        path.unlink()
        away.rename(path)
        assert each.is_at_path(status.identity)


def test_a_locked_directory_is_not_at_a_path_that_leads_elsewhere(store: Path) -> None:
    path = store.resolve()
    partition = Files().directory(path).at("t-0")
    status = partition.own_status()
    assert status is not None
    assert partition.above is not None
    lock = partition.above.lock(".lock")
    path.rename(path.with_name("away"))
    assert not partition.is_at_path(status.identity)
    (path / "t-0").mkdir(parents=True)
    assert not partition.is_at_path(status.identity)
    lock.release()


def test_any_number_of_buffers_is_written_in_their_order(tmp_path: Path) -> None:
    buffers = [bytes([65 + number % 26]) * (number % 4) for number in range(3000)]
    numbers = array("q", range(100))
    with Files().open_writing(tmp_path / "file", create=True) as file:
        file.write_at(3, [*buffers, memoryview(numbers), b""])
        file.write_at(0, [])
        file.write_at(0, [b"abc"])
    assert (tmp_path / "file").read_bytes() == b"abc" + b"".join(buffers) + numbers.tobytes()


WRITES_IN_PARTS = """
import os, sys
from storage.files import Files

writes = []
whole = os.pwritev
os.pwritev = lambda descriptor, buffers, position: (
    writes.append(position) or whole(descriptor, [memoryview(each).cast("B")[:5] for each in buffers[:1]], position)
)
with Files().open_writing(sys.argv[1], create=True) as file:
    file.write_at(0, [b"abcdefgh", b"", bytearray(b"ijklm"), b"n"])
print(writes)
"""


def test_a_write_that_the_system_cuts_short_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", WRITES_IN_PARTS, tmp_path / "file"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "[0, 5, 8, 13]\n"
    assert (tmp_path / "file").read_bytes() == b"abcdefghijklmn"


def test_what_is_no_file_is_not_replaced_by_one_outside_of_a_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SpecialFileError, match="is not a regular file"):
        replace_file(NamedFiles(), tmp_path / "pipe", b"data")
    assert (tmp_path / "pipe").is_fifo()
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("name", ["pipe", "pipe.tmp"])
def test_a_file_of_a_store_replaces_a_pipe_or_a_link_of_its_name(store: Path, name: str) -> None:
    (store / "victim").write_bytes(b"of others")
    for make in (os.mkfifo, lambda path: path.symlink_to(store / "victim")):
        make(store / name)
        Files().directory(store).replace("pipe", b"data")
        assert (store / "pipe").read_bytes() == b"data"
        assert not (store / "pipe").is_symlink()
        assert not os.path.lexists(store / "pipe.tmp")
        (store / "pipe").unlink()
    assert (store / "victim").read_bytes() == b"of others"


def test_a_sticky_directory_is_writable_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for mode, said in ((0o1777, 0o755), (0o777, 0o777), (0o1775, 0o755)):
        tmp_path.chmod(mode)
        status = Files().directory(tmp_path).own_status()
        assert status is not None
        assert status.mode == said
    (tmp_path / "f").chmod(0o1666)
    found = Files().directory(tmp_path).status("f")
    assert found is not None
    assert found.mode == 0o666


def test_a_region_of_a_file_that_others_cut_is_read_and_written(tmp_path: Path) -> None:
    """Mapped bytes that are gone would end the process with SIGBUS."""
    (tmp_path / "index").write_bytes(b"abcdefgh")
    with Files().directory(tmp_path).open_writing("index") as file:
        file.truncate(2**20)
        region = file.region(2**20)
        os.truncate(tmp_path / "index", 0)
        assert bytes(region.view[:9]) == b"abcdefgh\0"
        region.put(8, b"ij")
        region.flush()
        assert bytes(region.view[:11]) == b"abcdefghij\0"
        region.close()
        assert (tmp_path / "index").read_bytes() == bytes(8) + b"ij"
        with pytest.raises(OSError, match="another process has cut the file, which had 11 bytes"):
            file.region(11)
