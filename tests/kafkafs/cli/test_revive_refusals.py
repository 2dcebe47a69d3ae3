"""`kafkafs revive` refuses sources and targets that make no store, before it makes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from revived_stores import fingerprint, revive

import kafkafs
from kafkafs.cli import main
from storage.files import Files
from storage.log_dir import MetaProperties, read_meta_properties, write_meta_properties

if TYPE_CHECKING:
    from pathlib import Path


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
