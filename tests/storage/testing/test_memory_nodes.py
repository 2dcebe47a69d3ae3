"""What a loss of power may leave of files in memory, and what it must."""

from __future__ import annotations

from itertools import pairwise

from storage.testing.memory_files import MemoryFiles

SEEDS = range(300)
OLD, NEW = b"old" * 600, b"new" * 600


def outcomes(files: MemoryFiles, path: str) -> set[bytes | None]:
    """What a file may be after a loss of power; None if it is not there."""
    found = set()
    for seed in SEEDS:
        survivor = files.after_power_loss(seed)
        found.add(None if survivor.status(path) is None else survivor.read(path))
    return found


def written(data: bytes) -> MemoryFiles:
    """A file whose data is on disk, and its name."""
    files = MemoryFiles()
    with files.open_writing("/a", create=True) as file:
        file.write_at(0, [data])
        file.sync()
    files.sync_directory("/")
    return files


def test_what_was_synced_is_there() -> None:
    assert outcomes(written(OLD), "/a") == {OLD}


def test_sectors_of_a_write_are_there_or_not_each_by_itself() -> None:
    files = written(OLD)
    with files.open_writing("/a") as file:
        file.write_at(0, [NEW])
    found = outcomes(files, "/a")
    assert {OLD, NEW} < found
    bounds = (0, 512, 1024, 1536, 1800)
    sectors = [slice(*each) for each in pairwise(bounds)]
    for data in found:
        assert data is not None
        assert all(data[sector] in (OLD[sector], NEW[sector]) for sector in sectors)
    assert any(data and data[sectors[0]] == OLD[sectors[0]] and data[sectors[1]] == NEW[sectors[1]] for data in found)


def test_a_file_may_have_its_new_length_without_the_data() -> None:
    files = written(b"")
    with files.open_writing("/a") as file:
        file.write_at(0, [b"x" * 100])
    assert outcomes(files, "/a") == {b"", bytes(100), b"x" * 100}


def test_later_writes_may_be_there_without_earlier_ones() -> None:
    files = written(b"")
    with files.open_writing("/a") as file:
        file.write_at(0, [b"x" * 512])
        file.write_at(512, [b"y" * 512])
    assert bytes(512) + b"y" * 512 in outcomes(files, "/a")


def test_a_file_may_be_cut_without_what_was_written_before() -> None:
    files = written(b"abc")
    with files.open_writing("/a") as file:
        file.write_at(0, [b"def"])
        file.truncate(1)
    assert outcomes(files, "/a") == {b"abc", b"def", b"a", b"d"}


def test_a_rename_may_be_there_before_the_data_and_is_there_whole() -> None:
    files = written(OLD)
    with files.open_writing("/b", create=True) as file:
        file.write_at(0, [b"new"])
    files.rename("/b", "/a")
    assert outcomes(files, "/a") == {OLD, b"", bytes(3), b"new"}


def test_names_change_in_their_order() -> None:
    files = MemoryFiles()
    for name in "abc":
        files.open_writing(f"/{name}", create=True).close()
    names = {tuple(sorted(files.after_power_loss(seed).names("/"))) for seed in SEEDS}
    assert names == {(), ("a",), ("a", "b"), ("a", "b", "c")}
