"""How `kafkafs revive` ends: with 1 where something is lost, with 3 where it may not read, and 0 otherwise."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from revived_stores import fingerprint, revive

import kafkafs

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = 50
BROKER = (4711, 4712)
"""The broker's user and group."""
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
"""The beginning of a command in which root may read no more than the modes of files say."""
REMEDY = "run kafkafs as root or as the broker's user"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Give a store with a topic of two partitions and another of one."""
    with kafkafs.open([tmp_path / "disk"], write=True) as store:
        store.create("orders", 2)
        store.create("customers")
        for log in (store["orders"][0], store["orders"][1], store["customers"][0]):
            log.append_many({"value": b"%d" % number} for number in range(RECORDS))
    return tmp_path / "disk"


def in_both_ways(*sources: Path, into: Path, status: int) -> str:
    """Plan and revive; return what the latter printed."""
    revive(*sources, "--into", into, "--plan", status=status)
    assert not into.exists()
    return revive(*sources, "--into", into, status=status)


def without_rights(*arguments: object) -> tuple[int, str]:
    """Run the command as a user whom the modes of files bind; return its exit code and its standard error."""
    command = [sys.executable, "-m", "kafkafs", "revive", *map(str, arguments)]
    command = [*WITHOUT_RIGHTS, *command] if os.geteuid() == 0 else command
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_nothing_lost_is_0(disk: Path, tmp_path: Path) -> None:
    in_both_ways(disk, into=tmp_path / "node", status=0)


def test_offsets_that_were_replicated_are_1(disk: Path, tmp_path: Path) -> None:
    shutil.rmtree(disk / "orders-1")
    printed = in_both_ways(disk, into=tmp_path / "node", status=1)
    assert "    missing  offsets 0 to 49, once replicated\n" in printed
    assert ", 50 offsets below the high watermark on no disk\n" in printed
    with kafkafs.open([tmp_path / "node"]) as store:
        assert list(store["orders"]) == [0, 1]


def test_damage_on_every_disk_is_1(disk: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(disk, other)
    (log,) = (disk / "orders-0").glob("*.log")
    data = bytearray(log.read_bytes())
    data[-1] ^= 0xFF
    log.write_bytes(data)
    in_both_ways(disk, other, into=tmp_path / "both", status=0)
    assert "damaged" in in_both_ways(disk, into=tmp_path / "node", status=1)


def test_the_line_that_gives_the_files_to_the_broker_s_user_is_printed(disk: Path, tmp_path: Path) -> None:
    assert "chown" not in revive(disk, "--into", tmp_path / "own")
    if os.geteuid() != 0:
        pytest.skip("not root, who alone can give a directory to another user")
    os.chown(disk, *BROKER)
    lines = revive(disk, "--into", tmp_path / "node").splitlines()
    after = lines[lines.index(f"revived into {tmp_path / 'node'}; start the broker with") + 1 :]
    assert [line.split()[0] for line in after] == ["chown", "kafka-server-start.sh"]
    subprocess.run(after[0], shell=True, check=True)
    made = [(path.stat().st_uid, path.stat().st_gid) for path in (tmp_path / "node").rglob("*")]
    assert set(made) == {BROKER}


@pytest.mark.parametrize("name", ["orders-1", "orders-1/00000000000000000000.log"])
def test_a_partition_that_may_not_be_read_ends_it_before_anything_is_made(
    disk: Path, tmp_path: Path, name: str
) -> None:
    node = tmp_path / "node"
    (disk / name).chmod(0)
    for options in ([], ["--plan"]):
        status, said = without_rights(disk, "--into", node, *options)
        assert (status, node.exists()) == (3, False)
        remedy = f"{REMEDY}, or leave its topic out with --topics"
        assert said == f"kafkafs: the partition cannot be read (Permission denied): {remedy} ({disk / 'orders-1'})\n"
    assert without_rights(disk, "--topics", "customers", "--into", node) == (0, "")


@pytest.mark.parametrize(("mode", "name"), [(0o000, "."), (0o600, "."), (0o000, "__cluster_metadata-0")])
def test_a_log_directory_that_may_not_be_read_ends_it(disk: Path, tmp_path: Path, mode: int, name: str) -> None:
    path = disk / name
    path.mkdir(exist_ok=True)
    path.chmod(mode)
    what = "log directory" if name == "." else "metadata log"
    status, said = without_rights(disk, "--into", tmp_path / "node")
    path.chmod(0o755)
    assert (status, (tmp_path / "node").exists()) == (3, False)
    assert said == f"kafkafs: the {what} cannot be read (Permission denied): {REMEDY} ({path})\n"


def test_a_partition_metadata_file_is_named_alone(disk: Path, tmp_path: Path) -> None:
    (disk / "orders-0" / "partition.metadata").write_bytes(b"")
    before = fingerprint([disk])
    printed = in_both_ways(disk, into=tmp_path / "node", status=0)
    assert fingerprint([disk]) == before
    path = disk / "orders-0" / "partition.metadata"
    (note,) = [line for line in printed.splitlines() if "cannot be read" in line]
    assert note == (
        f"note: {path} cannot be read (the file does not consist of a version and a topic id), and does not say whose "
        "the partition is"
    )
    assert "passed over" not in printed
