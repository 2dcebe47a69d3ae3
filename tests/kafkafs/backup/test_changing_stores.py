"""Stores that change under a run: what a broker does between two steps of it, and damage, which is copied as it is."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from backed_up_stores import LATEST, BackedUp

from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets, write_offsets
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.testing.memory_nodes import Content


class MeddledFiles(MemoryFiles):
    """Files in which something else happens right before the first step of a path that ends so."""

    moment: tuple[str, Callable[[], None]] | None = None

    def step(self, path: str, partly: object = None) -> None:
        """Do it."""
        if self.moment is not None and path.startswith("/backups") and path.endswith(self.moment[0]):
            meddle, self.moment = self.moment[1], None
            meddle()
        super().step(path, partly)  # type: ignore[arg-type]


@pytest.fixture
def store() -> BackedUp:
    made = BackedUp(MeddledFiles())
    made.create({"orders": 2, "idle": 1})
    made.append("orders", 0, 20)
    made.append("orders", 1, 2)
    made.append("idle", 0, 5)
    return made


def meddle(store: BackedUp, moment: str, what: Callable[[], None]) -> None:
    assert isinstance(store.files, MeddledFiles)
    store.files.moment = (moment, what)


def home_of(store: BackedUp, name: str) -> str:
    return next(path for path in ("/a", "/b") if name in store.files.names(path))


def logs_of(store: BackedUp, name: str) -> list[str]:
    place = f"{home_of(store, name)}/{name}"
    return sorted(f"{place}/{each}" for each in store.files.names(place) if each.endswith(".log"))


def test_retention_under_a_run_moves_the_start_of_the_copy(store: BackedUp) -> None:
    def retain() -> None:
        with store.open() as opened:
            log = opened.log_to_write("orders", 0)
            log.advance_start(log.view.segments[2].base_offset)
            log.remove_before(log.view.segments[2].base_offset)

    meddle(store, f"orders-0/{Path(logs_of(store, 'orders-0')[1]).name}", retain)
    report = store.back_up()
    assert store.values_of(report.path) == store.values()
    assert store.damage_in(report.path) == []
    assert any("orders-0 was copied 2 times" in change for change in report.changes)


def test_a_truncation_under_a_run_is_noticed(store: BackedUp) -> None:
    def truncate() -> None:
        with store.open() as opened:
            opened.log_to_write("orders", 0).truncate_to(3)
        store.append("orders", 0, 20, "another")

    meddle(store, "orders-0/leader-epoch-checkpoint.tmp", truncate)
    report = store.back_up()
    assert store.values_of(report.path) == store.values()
    assert store.damage_in(report.path) == []


def test_a_topic_that_is_deleted_under_a_run_is_not_in_it(store: BackedUp) -> None:
    def delete() -> None:
        with store.open() as opened:
            opened.topics.delete("orders")

    meddle(store, f"orders-1/{Path(logs_of(store, 'orders-1')[0]).name}", delete)
    report = store.back_up()
    assert set(store.values_of(report.path)) == {("idle", 0)}
    assert store.damage_in(report.path) == []
    assert [change.split(",")[0] for change in report.changes] == [
        "orders-1 was deleted while it was copied",
        "orders-0 was deleted after it was copied",
    ]


def test_a_topic_that_is_made_under_a_run_is_in_it(store: BackedUp) -> None:
    def make() -> None:
        with store.open() as opened:
            opened.topics.create("late", 2)
        store.append("late", 1, 3)

    meddle(store, f"orders-1/{Path(logs_of(store, 'orders-1')[0]).name}", make)
    report = store.back_up()
    assert store.values_of(report.path) == store.values()
    assert ("late", 1) in store.values_of(report.path)


def test_a_partition_is_found_where_it_was_moved(store: BackedUp) -> None:
    here = home_of(store, "orders-0")
    there = "/b" if here == "/a" else "/a"

    def move() -> None:
        files = store.files
        files.make_directory(f"{there}/orders-0")
        for name in files.names(f"{here}/orders-0"):
            files.directory(f"{there}/orders-0").replace(name, files.read(f"{here}/orders-0/{name}"))
            files.remove(f"{here}/orders-0/{name}")
        files.remove_directory(f"{here}/orders-0")

    meddle(store, f"orders-0/{Path(logs_of(store, 'orders-0')[1]).name}", move)
    report = store.back_up()
    assert store.values_of(report.path) == store.values()
    assert store.damage_in(report.path) == []


# Up to the high watermark


@pytest.fixture
def foreign(store: BackedUp) -> BackedUp:
    """The same as if a broker had made it."""
    for path in ("/a", "/b"):
        if "kafkafs-topics.properties" in store.files.names(path):
            store.files.remove(f"{path}/kafkafs-topics.properties")
    return store


def set_watermark(store: BackedUp, offset: int) -> None:
    for path in ("/a", "/b"):
        directory = store.files.directory(path)
        known = read_offsets(directory, OffsetCheckpoint.HIGH_WATERMARK)
        changed = {each: offset if each == ("orders", 0) else known[each] for each in known}
        write_offsets(directory, OffsetCheckpoint.HIGH_WATERMARK, changed)


def test_a_copy_ends_at_the_high_watermark(foreign: BackedUp) -> None:
    values = foreign.values()
    for offset in range(21):
        set_watermark(foreign, offset)
        report = foreign.back_up()
        assert foreign.values_of(report.path) == {**values, ("orders", 0): values["orders", 0][:offset]}
        assert foreign.damage_in(report.path) == []
        with Store.open([report.path], mode=Mode.READ_ONLY, files=foreign.files, clock=foreign.clock) as run:
            assert run.log("orders", 0).view.end_offset == offset
    set_watermark(foreign, 7)
    report = foreign.back_up(to_end=True)
    assert foreign.values_of(report.path) == values


def test_without_a_readable_checkpoint_logs_are_copied_to_their_ends_and_that_is_said(foreign: BackedUp) -> None:
    values = foreign.values()
    for path in ("/a", "/b"):
        foreign.files.directory(path).replace(OffsetCheckpoint.HIGH_WATERMARK.value, b"garbage")
    report = foreign.back_up()
    assert foreign.values_of(report.path) == values
    assert [change.partition(" has no checkpoint")[0] for change in report.changes] == ["/a", "/b"]
    assert all("replication-offset-checkpoint" in damage for damage in report.damage)
    assert len(report.damage) == 2


# Damage


@pytest.mark.parametrize("segment", [1, -1])
def test_damage_is_copied_as_it_is_and_named(store: BackedUp, segment: int) -> None:
    path = logs_of(store, "orders-0")[segment]
    flip(store, path)
    for _ in range(2):
        report = store.back_up()
        assert report.damage
        assert all(damage.startswith(f"orders-0/{Path(path).name}: ") for damage in report.damage)
        assert store.files.read(report.path / "orders-0" / Path(path).name) == store.files.read(path)
        found = store.damage_in(report.path)
        assert {finding.path for finding in found} == {f"orders-0/{Path(path).name}"}
    assert report.failures == []
    assert store.files.link_target(LATEST) == f"runs/{report.name}"


def flip(store: BackedUp, path: str) -> None:
    with store.files.open_writing(path) as file:
        (byte,) = file.read_at(90, 1)
        file.write_at(90, [bytes([byte ^ 1])])


def test_a_partition_that_cannot_be_read_is_named_and_the_run_is_not_the_latest(
    store: BackedUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.back_up()
    path = logs_of(store, "orders-0")[1]
    store.append("orders", 0, 1)
    flip(store, path)  # so that it is not linked
    content = MemoryFiles._content

    def refuse(files: MemoryFiles, asked: str | os.PathLike[str]) -> Content:
        if os.fspath(asked) == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return content(files, asked)

    monkeypatch.setattr(MemoryFiles, "_content", refuse)
    report = store.back_up()
    monkeypatch.undo()
    assert [failure.partition(":")[0] for failure in report.failures] == ["orders-0 cannot be read"]
    assert ("idle", 0) in store.values_of(report.path)
    assert ("orders", 0) not in store.values_of(report.path)
    assert store.files.link_target(LATEST) == f"runs/{first.name}"
    again = store.back_up()
    assert store.files.link_target(LATEST) == f"runs/{again.name}"
