"""A large directory is listed again only when it has changed, a small one always."""

from __future__ import annotations

import os
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock

from storage.budget import MEMORY, MustWaitError
from storage.errors import TooManySegmentsError
from storage.files import Files, listed
from storage.log import listed_names
from storage.log.listed_names import FEW_NAMES, SETTLED_MS, ListedNames, differ
from storage.segment import names as segment_names
from storage.segment.names import Kind, check_few_segments

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gather the directories whose names are read."""
    monkeypatch.setattr(listed_names, "FEW_NAMES", 3)
    made: list[str] = []
    real = os.listdir

    def listdir(place: int) -> list[str]:
        made.append(os.readlink(f"/proc/self/fd/{place}"))  # noqa: PTH115
        return real(place)

    monkeypatch.setattr(os, "listdir", listdir)
    return made


def settled(directory: Path, clock: StandingClock) -> None:
    """Let the directory's last change be long ago, so that the next one has another time."""
    os.utime(directory, (1e9, 1e9))
    clock.ms = int(directory.stat().st_mtime * 1000) + SETTLED_MS + 1000


@pytest.mark.parametrize(("count", "lists_again"), [(3, True), (4, False)])
def test_names_are_listed_again_unless_there_are_many(
    tmp_path: Path, lists: list[str], count: int, *, lists_again: bool
) -> None:
    for number in range(count):
        (tmp_path / f"{number}").touch()
    clock = StandingClock()
    settled(tmp_path, clock)
    names, directory = ListedNames(clock), Files().directory(tmp_path)
    first = names.listing(directory)
    assert first is not None
    assert sorted(first[1]) == [str(number) for number in range(count)]
    assert names.listing(directory) == first
    assert len(lists) == 1 + lists_again
    (tmp_path / "more").touch()
    changed = names.listing(directory)
    assert changed is not None
    assert "more" in changed[1]


def test_a_change_of_a_moment_ago_does_not_vouch_for_the_names(tmp_path: Path, lists: list[str]) -> None:
    for number in range(4):
        (tmp_path / f"{number}").touch()
    clock = StandingClock()
    clock.ms = int(tmp_path.stat().st_mtime * 1000) + SETTLED_MS - 1
    names, directory = ListedNames(clock), Files().directory(tmp_path)
    names.listing(directory)
    names.listing(directory)
    assert len(lists) == 2
    settled(tmp_path, clock)
    for _ in range(3):
        names.listing(directory)
    assert len(lists) == 3


def test_another_directory_of_the_same_time_is_listed(tmp_path: Path, lists: list[str]) -> None:
    clock = StandingClock()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(4):
            (tmp_path / name / f"{name}{number}").touch()
        os.utime(tmp_path / name, (1000, 1000))
    settled(tmp_path / "a", clock)
    names, files = ListedNames(clock), Files()
    names.listing(files.directory(tmp_path / "a"))
    found = names.listing(files.directory(tmp_path / "b"))
    assert found is not None
    assert sorted(found[1]) == ["b0", "b1", "b2", "b3"]
    assert len(lists) == 2


@pytest.mark.parametrize("is_settled", [True, False])
def test_too_many_segments_are_refused_until_there_are_fewer(
    tmp_path: Path, lists: list[str], monkeypatch: pytest.MonkeyPatch, *, is_settled: bool
) -> None:
    monkeypatch.setattr(segment_names, "SEGMENTS_MAX", 5)
    for number in range(6):
        (tmp_path / f"{number:020}.log").touch()
    clock = StandingClock()
    settled(tmp_path, clock)
    clock.ms -= 0 if is_settled else SETTLED_MS + 1000
    names, directory = ListedNames(clock), Files().directory(tmp_path)
    for _ in range(3):
        with pytest.raises(TooManySegmentsError, match="the partition has 6 segments, and no more than 5 are"):
            names.listing(directory)
    assert len(lists) == 1
    clock.ms += SETTLED_MS + 1000
    for _ in range(3):
        with pytest.raises(TooManySegmentsError):
            names.listing(directory)
    assert len(lists) == (1 if is_settled else 2)
    (tmp_path / f"{0:020}.log").unlink()
    os.utime(tmp_path, (1000, 1000))
    fewer = names.listing(directory)
    assert fewer is not None
    assert len(fewer[1]) == 5


@pytest.mark.parametrize("is_large", [True, False])
def test_a_thread_that_others_need_lists_no_large_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    for number in range(4):
        (tmp_path / f"{number}").touch()
    directory = Files().directory(tmp_path)
    status = directory.own_status()
    assert status is not None
    monkeypatch.setattr(listed, "LARGE_DIRECTORY_BYTES", status.size_bytes + (not is_large))
    names = ListedNames(StandingClock())
    outcomes: list[object] = []

    def ask() -> None:
        MEMORY.never_lease_here()
        try:
            outcomes.append(names.listing(directory))
        except MustWaitError as error:
            outcomes.append(error)

    thread = Thread(target=ask)
    thread.start()
    thread.join()
    assert isinstance(outcomes[0], MustWaitError) == is_large
    found = names.listing(directory)
    assert found is not None
    assert len(found[1]) == 4


def test_files_of_other_names_are_no_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_names, "SEGMENTS_MAX", 2)
    names = [f"{number:020}{kind}" for kind in Kind for number in range(2)]
    check_few_segments([*names, "leader-epoch-checkpoint"], tmp_path)


def test_a_directory_that_is_gone_has_no_names(tmp_path: Path) -> None:
    assert ListedNames(StandingClock()).listing(Files().directory(tmp_path / "gone")) is None


def test_listings_differ_in_their_time_and_in_any_of_their_names() -> None:
    many = [str(number) for number in range(FEW_NAMES * 2 + 5)]
    for names in ([], ["a"], many):
        assert not differ((1, names), (1, list(names)))
        assert not differ((1, names), (1, names))
        assert differ((1, names), (2, names))
        assert differ((1, names), None)
        assert differ((1, names), (1, [*names, "more"]))
    for at in (0, FEW_NAMES, len(many) - 1):
        changed = list(many)
        changed[at] = "other"
        assert differ((1, many), (1, changed))
