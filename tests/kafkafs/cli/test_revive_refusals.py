"""`kafkafs revive` refuses sources and targets that make no store, before it makes anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from revived_stores import fingerprint, revive

import kafkafs
from kafkafs.cli import main
from storage.files import Files
from storage.log_dir import MetaProperties, read_meta_properties, write_meta_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD: Final = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"


def made(path: Path, topic: str = "orders") -> Path:
    """Make a store with a topic of one record; return its path."""
    with kafkafs.open([path], write=True) as store:
        store.create(topic)[0].append(b"one")
    return path


def identified(path: Path, cluster_id: str, node_id: int) -> Path:
    """Make a store of this node of this cluster."""
    made(path, f"of-{node_id}")
    write_meta_properties(Files().directory(path), MetaProperties(1, cluster_id, node_id), 0)
    return path


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Let another process have a file's lock, as a broker has."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], text=True, **pipes) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.communicate("\n")


def interrupted(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """Begin a revival that does not end."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr("kafkafs.revive.building.write_bootstrap", full)
        revive(*arguments, status=3)


def refused(tmp_path: Path, *arguments: object, status: int = 3) -> str:
    """Return what the command says that refuses to revive these, and makes nothing."""
    before = fingerprint([tmp_path])
    said = revive(*arguments, status=status)
    assert fingerprint([tmp_path]) == before
    return said


def test_disks_of_two_clusters_are_refused(tmp_path: Path) -> None:
    disks = [made(tmp_path / "ours"), made(tmp_path / "foreign", "payments")]
    found = [read_meta_properties(Files().directory(path)) for path in disks]
    ours, foreign = (properties.cluster_id for properties in found if properties is not None)
    for options in ([], ["--plan"]):
        said = refused(tmp_path, *disks, "--into", tmp_path / "node", *options)
        assert f"the directory is of cluster {foreign}, {disks[0]} of {ours} ({disks[1]})" in said
        assert "payments" not in said


def test_disks_of_two_nodes_of_a_cluster_and_one_that_does_not_say_are_revived(tmp_path: Path) -> None:
    disks = [identified(tmp_path / f"node{number}", "A" * 22, number) for number in (1, 2, 3)]
    (disks[2] / "meta.properties").unlink()
    revive(*disks, "--into", tmp_path / "node")
    with kafkafs.open([tmp_path / "node"]) as store:
        assert sorted(store) == ["of-1", "of-2", "of-3"]


@pytest.mark.parametrize("place", ["new", "orders-9", "orders-0/new"])
def test_a_store_is_not_made_in_a_source(tmp_path: Path, place: str) -> None:
    source = made(tmp_path / "source")
    (tmp_path / "link").symlink_to(source)
    for path in (source, tmp_path / "link"):
        for options in ([], ["--plan"]):
            said = refused(tmp_path, source, "--into", path / place, *options)
            assert f"the new store would lie in {source}, which is only read" in said


def test_no_source_is_taken_from_where_the_store_is_made(tmp_path: Path) -> None:
    made(tmp_path / "source")
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "kafkafs-reviving.json").write_text("{}")
    inner = (tmp_path / "source").rename(tmp_path / "node" / "source")
    assert f"{inner} lies in it" in refused(tmp_path, inner, "--into", tmp_path / "node")


def test_a_store_is_not_made_among_backups(tmp_path: Path) -> None:
    source, backups = made(tmp_path / "source"), tmp_path / "backups"
    assert CliRunner().invoke(main, ["backup", str(source), str(backups)]).exit_code == 0
    for place in (backups / "new", backups / "runs" / "new", backups / "latest" / "new"):
        said = refused(tmp_path, source, "--into", place)
        assert f"would lie in the directory of backups {backups}" in said
    revive(backups / "latest", "--into", tmp_path / "node")


def test_a_disk_is_filled_below_its_lost_and_found(tmp_path: Path) -> None:
    source, new = made(tmp_path / "source"), tmp_path / "new"
    for name in ("one", "other"):
        (new / name / "lost+found").mkdir(parents=True)
    said = refused(tmp_path, source, "--into", f"{tmp_path / 'node'},{new / 'other'}", status=2)
    assert f"no broker starts beside lost+found: give a directory below this one, such as {new / 'other'}/kafka" in said
    revive(source, "--into", f"{new / 'one' / 'kafka'},{new / 'other' / 'kafka'}")


def test_an_unfinished_revival_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, half = made(tmp_path / "source"), tmp_path / "half"
    interrupted(monkeypatch, source, "--into", half)
    reason = "a revival was begun here and not finished, so that partitions may be missing"
    assert reason in refused(tmp_path, half, "--into", tmp_path / "node", status=2)
    for options in ([], ["--plan"]):
        backup = CliRunner().invoke(main, ["backup", str(half), str(tmp_path / "backups"), *options])
        assert backup.exit_code == 2
        assert reason in backup.stderr
    assert not (tmp_path / "backups").exists()
    revive(source, "--into", half)
    revive(half, "--into", tmp_path / "node")


def test_a_source_that_is_written_is_said_to_change(tmp_path: Path) -> None:
    source = made(tmp_path / "source")
    reason = f"note: {source} is open for writing elsewhere, so it may change while it is read"
    assert reason not in revive(source, "--into", tmp_path / "node", "--plan")
    with held(source / ".lock"):
        assert reason in revive(source, "--into", tmp_path / "node", "--plan")


def test_links_into_another_file_system_are_said_to_be_copies(tmp_path: Path) -> None:
    source = made(tmp_path / "source")
    assert "--link" not in revive(source, "--link", "--into", tmp_path / "node", "--plan")
    with TemporaryDirectory(dir="/dev/shm") as elsewhere:
        if Path(elsewhere).stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("both directories are on one file system")
        said = revive(source, "--link", "--into", f"{elsewhere}/node")
        assert f"note: --link links nothing of {source} into {elsewhere}/node, which is on another file system" in said
        assert "--link" not in revive(source, "--into", f"{elsewhere}/other", "--plan")


def test_a_relative_time_goes_on_meaning_what_it_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, options = made(tmp_path / "source"), ("--into", tmp_path / "node", "--until")
    interrupted(monkeypatch, source, *options, "now")
    with kafkafs.open([source], write=True) as store:
        store["orders"][0].append(b"later")
    assert "with other options" in revive(source, *options, "-1h", status=3)
    said = revive(source, *options, "now")
    assert re.search("--until now means 20[0-9T:.-]+Z, as it did when this run was begun", said)
    with kafkafs.open([tmp_path / "node"]) as store:
        assert [record.value for record in store["orders"][0].records()] == [b"one"]
    assert "as it did" not in revive(source, "--into", tmp_path / "other", "--until", "now")
