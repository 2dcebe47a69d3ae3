"""Partitions whose directories are links, as where they are spread over disks: followed only if that is asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import kafkafs
from kafkafs.cli import main
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

LOG = f"{0:020}.log"


@pytest.fixture
def spread_store(filled_store: Path) -> Path:
    """Make a store whose orders/0 is a link to a directory on another disk."""
    disk = filled_store.parent / "disk"
    disk.mkdir()
    (filled_store / "orders-0").rename(disk / "moved")
    (filled_store / "orders-0").symlink_to(disk / "moved")
    return filled_store


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_a_partition_that_is_a_link_is_no_part_of_the_store(spread_store: Path) -> None:
    assert run("ls", spread_store, "orders").stdout.split() == ["1", "config"]
    assert run("cat", spread_store, "orders/0/offset/3").exit_code == EXIT_FOUND
    said = f"{spread_store / 'orders-0'} is a symbolic link, which --follow-links follows\n"
    assert run("cat", spread_store, "orders/0/values").stderr.endswith(f"the topic orders has no partition 0: {said}")
    (spread_store / "orders-1").rename(spread_store.parent / "disk" / "other")
    assert run("cat", spread_store, "orders/0/values").stderr.endswith(f"there is no topic 'orders': {said}")
    (spread_store.parent / "disk" / "other").rename(spread_store / "orders-1")
    (finding,) = map(json.loads, run("verify", spread_store).stdout.splitlines())
    assert (finding["path"], finding["kind"]) == ("orders-0", "symbolic_link")


def test_it_is_read_and_written_if_links_are_followed(spread_store: Path) -> None:
    follow = "--follow-links"
    assert run("ls", spread_store, "orders", follow).stdout.split() == ["0", "1", "config"]
    assert run("cat", spread_store, "orders/0/offset/3", follow).stdout == "xxx"
    assert (run("verify", spread_store, follow).exit_code, run("verify", spread_store, follow).stdout) == (
        EXIT_DONE,
        "",
    )
    with kafkafs.open(spread_store, write=True, follow_links=True) as store:
        assert store["orders"][0].append(b"more") == 20
    assert run("cat", spread_store, "orders/0/offset/latest", follow).stdout == "more"
    assert (spread_store / "orders-0").is_symlink()
    assert any(b"more" in log.read_bytes() for log in (spread_store.parent / "disk" / "moved").glob("*.log"))
    (spread_store / ".kafka_cleanshutdown").unlink()
    assert run("recover", spread_store, "--apply", follow).exit_code == EXIT_DONE
    assert run("topics", "delete", spread_store, "orders", "--apply", follow).exit_code == EXIT_DONE
    assert not (spread_store / "orders-0").is_symlink()
    assert (spread_store.parent / "disk" / "moved" / LOG).exists()


def test_nothing_in_it_is_followed(spread_store: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"a victim")
    log = spread_store / "orders-0" / LOG
    log.unlink()
    log.symlink_to(tmp_path / "victim")
    done = run("cat", spread_store, "orders/0/values", "--follow-links")
    assert (done.exit_code, done.stdout) == (EXIT_FAILED, "")
    assert done.stderr == f"kafkafs: {log}: is a symbolic link, which kafkafs does not follow\n"
    (spread_store / "orders-1").rename(tmp_path / "gone")
    (spread_store / "orders-1").symlink_to("orders-1")
    assert "orders-1" in run("verify", spread_store, "--follow-links").stdout


def test_the_library_follows_them_if_it_is_asked_to(spread_store: Path) -> None:
    with kafkafs.open(spread_store) as store:
        assert 0 not in store["orders"]
    with kafkafs.open(spread_store, follow_links=True) as store:
        assert store["orders"][0].record(3).value == b"xxx"
