"""Files held open for followers stay within the budget, those that each reads next first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkafs.content.held_files import HeldFiles, Wanted
from storage.segment.segment import Segment
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def wanted(files: MemoryFiles) -> Callable[..., Wanted]:
    files.make_directory("/x-0")

    def make(base_offset: int, removed_bytes: int = 0) -> Wanted:
        path = f"/x-0/{base_offset:020d}.log"
        with files.open_writing(path, create=True) as file:
            file.write_at(0, [b"%d" % base_offset])
        status = files.status(path)
        assert status is not None
        return Wanted(status.identity, Segment(files.directory("/x-0"), base_offset), removed_bytes)

    return make


def test_the_first_of_each_follower_are_held(wanted: Callable[..., Wanted]) -> None:
    held = HeldFiles(files_max=3)
    one, other = [wanted(number) for number in range(5)], [wanted(number) for number in range(10, 15)]
    held.want("one", one)
    assert [held.has(each.identity) for each in one] == [True, True, True, False, False]
    held.want("other", other)
    assert [held.has(each.identity) for each in one + other] == [True, True, *[False] * 3, True, *[False] * 4]
    held.want("one", ())
    assert [held.has(each.identity) for each in one + other] == [*[False] * 5, True, True, True, False, False]


def test_removed_files_are_held_up_to_a_number_of_bytes(files: MemoryFiles, wanted: Callable[..., Wanted]) -> None:
    held = HeldFiles(removed_bytes_max=100)
    two = [wanted(0), wanted(1)]
    held.want("one", two)
    for number in range(2):
        files.remove(f"/x-0/{number:020d}.log")
    held.want("one", [each._replace(removed_bytes=60) for each in two])
    assert [held.has(each.identity) for each in two] == [True, False]
    with held.use(two[0].identity) as file:
        assert file is not None
        held.want("one", ())
        assert file.read_at(0, 10) == b"0", "it is open for as long as it is used"
    with held.use(two[0].identity) as file:
        assert file is None


def test_a_file_that_has_taken_the_name_of_another_is_not_held_for_it(
    files: MemoryFiles, wanted: Callable[..., Wanted]
) -> None:
    held, before = HeldFiles(), wanted(0)
    files.remove(f"/x-0/{0:020d}.log")
    wanted(0)
    held.want("one", [before])
    assert not held.has(before.identity)
