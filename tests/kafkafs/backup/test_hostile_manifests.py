"""Manifests that another user has changed: each is a damaged one, and leads to no file outside of its run."""

from __future__ import annotations

import hashlib
import json
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from backed_up_stores import BackedUp, backed_up_store

from kafkafs.backup import RunCheck
from kafkafs.backup.errors import BackupError, DamagedRunError
from kafkafs.backup.manifest import Manifest, ManifestWriter
from storage.log_dir import RUN_MANIFEST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.backup import RunReport

INFINITY = float("inf")


@pytest.fixture
def store() -> BackedUp:
    return backed_up_store()


def lines_of(store: BackedUp, report: RunReport) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.files.read(report.path / RUN_MANIFEST_NAME).splitlines()]


def write_lines(store: BackedUp, run: Path, lines: list[dict[str, Any]]) -> None:
    """Write a manifest whose last line has the checksum of those before."""
    before = b"".join(json.dumps(line).encode() + b"\n" for line in lines[:-1])
    last = {**lines[-1], "linesSha256": hashlib.sha256(before).hexdigest()}
    store.files.directory(run).replace(RUN_MANIFEST_NAME, before + json.dumps(last).encode() + b"\n")


def assert_damaged(store: BackedUp, run: Path) -> None:
    """Check that a check says so, and that the next run shares nothing with this one."""
    with pytest.raises(DamagedRunError, match="the manifest of the run is damaged: ") as refused:
        RunCheck(store.files, run)
    assert str(refused.value.path) == str(run / RUN_MANIFEST_NAME)
    report = store.back_up()
    assert (report.linked_bytes, report.failures) == (0, [])
    assert store.damage_in(report.path) == []


@pytest.mark.parametrize(
    "name",
    ["../../../secret/file", "/secret", ".", "..", "", "a/b", "a\0b", "\ud800", "x" * 256, "ä", 5, None, ["a"]],
)
@pytest.mark.parametrize("is_at_top", [True, False])
def test_a_file_has_a_name_and_no_path(store: BackedUp, name: object, is_at_top: bool) -> None:
    report = store.back_up()
    lines = lines_of(store, report)
    lines[-1 if is_at_top else 1]["files"][0]["name"] = name
    write_lines(store, report.path, lines)
    assert_damaged(store, report.path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", "../../x"),
        ("topic", ""),
        ("topic", ".."),
        ("topic", "a/b"),
        ("topic", "a\0b"),
        ("topic", None),
        ("partition", INFINITY),
        ("partition", -1),
        ("partition", 2**31),
        ("partition", "0"),
        ("partition", True),
        ("partition", 1.0),
        ("startOffset", None),
        ("endOffset", float("nan")),
        ("endOffset", 2**63),
        ("endOffset", 10**30),
        ("highWatermark", "5"),
        ("firstDirtyOffset", []),
        ("aboveHighWatermark", -1),
        ("topicId", 5),
        ("logDir", "a\0b"),
        ("logDir", "\ud800"),
        ("damage", [5]),
        ("damage", None),
        ("files", None),
        ("files", 5),
        ("files", [[]]),
    ],
)
def test_a_partition_is_what_it_has_to_be(store: BackedUp, field: str, value: object) -> None:
    report = store.back_up()
    lines = lines_of(store, report)
    lines[1][field] = value
    write_lines(store, report.path, lines)
    assert_damaged(store, report.path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bytes", INFINITY),
        ("bytes", -1),
        ("bytes", "5"),
        ("sha256", "x"),
        ("sha256", None),
        ("source", 5),
        ("source", [1, 2]),
        ("source", [INFINITY, 2, 3]),
        ("source", [2**64, 2, 3]),
        ("source", [1, None, 3]),
    ],
)
def test_a_file_is_what_it_has_to_be(store: BackedUp, field: str, value: object) -> None:
    report = store.back_up()
    lines = lines_of(store, report)
    lines[1]["files"][0][field] = value
    write_lines(store, report.path, lines)
    assert_damaged(store, report.path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("copiedBytes", None),
        ("copiedBytes", "x"),
        ("linkedBytes", INFINITY),
        ("linkedBytes", 2.5),
        ("removed", 5),
        ("removed", [[1]]),
        ("removed", [5]),
        ("failures", 5),
        ("failures", None),
        ("failures", ["\ud800"]),
        ("failures", {"a": 1}),
        ("files", "x"),
    ],
)
def test_the_last_line_is_what_it_has_to_be(store: BackedUp, field: str, value: object) -> None:
    report = store.back_up()
    lines = lines_of(store, report)
    lines[-1][field] = value
    write_lines(store, report.path, lines)
    assert_damaged(store, report.path)


@pytest.mark.parametrize("field", ["copiedBytes", "linkedBytes", "files"])
def test_the_last_line_has_to_have(store: BackedUp, field: str) -> None:
    report = store.back_up()
    lines = lines_of(store, report)
    del lines[-1][field]
    write_lines(store, report.path, lines)
    assert_damaged(store, report.path)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [{**lines[0], "version": True}, *lines[1:]],
        lambda lines: [{**lines[0], "version": 2}, *lines[1:]],
        lambda lines: [{}, *lines[1:]],
        lambda lines: [lines[0], *lines],
        lambda lines: [*lines, lines[-1]],
    ],
)
def test_lines_that_do_not_belong_there(
    store: BackedUp, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    report = store.back_up()
    write_lines(store, report.path, change(lines_of(store, report)))
    assert_damaged(store, report.path)


def test_an_inode_may_have_all_bits_and_a_path_any_byte(store: BackedUp) -> None:
    report = store.back_up()
    lines = lines_of(store, report)
    lines[1]["files"][0]["source"] = [2**64 - 1, 5, -1]
    lines[1]["logDir"] = "/a\udcff"
    write_lines(store, report.path, lines)
    assert list(RunCheck(store.files, report.path).findings(lambda: None)) == []


def test_a_manifest_that_says_something_else_later_is_damaged(store: BackedUp) -> None:
    report = store.back_up()
    lines = lines_of(store, report)
    write_lines(store, report.path, lines)
    manifest = Manifest.read(store.files.directory(report.path))
    lines[1]["topic"] = "another topic"[: len(lines[1]["topic"])].replace(" ", "-")
    write_lines(store, report.path, lines)
    with pytest.raises(DamagedRunError, match="it was changed while it was in use"):
        list(manifest.partitions())


@pytest.mark.parametrize("kind", ["changed", "gone"])
def test_a_run_that_goes_while_the_next_is_made_is_not_needed(store: BackedUp, kind: str) -> None:
    first = store.back_up()

    def meddle(_: object) -> None:
        if kind == "changed":
            store.files.directory(first.path).replace(RUN_MANIFEST_NAME, b"garbage\n")
        elif RUN_MANIFEST_NAME in store.files.names(first.path):
            store.files.remove(first.path / RUN_MANIFEST_NAME)

    store.clock.ms += 60_000
    report = store.backup().run(meddle)
    assert (report.failures, store.damage_in(report.path)) == ([], [])
    assert store.values_of(report.path) == store.values()


@pytest.mark.parametrize("kind", ["of lists", "long", "deep"])
def test_a_line_takes_no_more_memory_than_one_of_a_partition(store: BackedUp, kind: str) -> None:
    report = store.back_up()
    head = store.files.read(report.path / RUN_MANIFEST_NAME).splitlines()[0]
    line = {
        "of lists": b"[" + b"[]," * 20_000_000 + b"[]]",
        "long": b'{"a":"' + b"a" * (70 * 1024 * 1024) + b'"}',
        "deep": b"[" * 1_900_000,
    }[kind]
    store.files.directory(report.path).replace(RUN_MANIFEST_NAME, b"\n".join([head, line, b""]))
    del line
    Path("/proc/self/clear_refs").write_text("5")  # so that the highest use is that of the check
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedRunError):
        RunCheck(store.files, report.path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 400 * 1024


def test_no_line_is_written_that_could_not_be_read(store: BackedUp) -> None:
    store.files.make_directory("/run")
    writer = ManifestWriter(store.files.directory("/run"), {})
    with pytest.raises(BackupError, match="a line of the manifest would have"):
        writer.finish({"damage": ["x" * 64 * 1024 * 1024]})
