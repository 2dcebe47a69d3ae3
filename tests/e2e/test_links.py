"""Links in a store that is mounted: what they lead to can neither be read nor changed through the mount."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mounts import store_mounting

from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

LOG = f"{0:020}.log"
INDEX = f"{0:020}.index"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store with links to a secret in it: files of orders/0, and the whole of orders/1."""
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as opened:
        opened.topics.create("orders", 3)
        for partition in range(3):
            (batch,) = batches_of_rows([(Clock().now_ms(), b"key", b"value", ())], base_offset=None)
            opened.log("orders", partition).append_as_leader(batch, leader_epoch=0)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / LOG).write_bytes(b"secret")
    for name in (LOG, INDEX, "leader-epoch-checkpoint"):
        (path / "orders-0" / name).unlink()
        (path / "orders-0" / name).symlink_to(outside / LOG)
    (path / "orders-1").rename(tmp_path / "moved")
    (path / "orders-1").symlink_to(outside)
    return path


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_what_a_link_leads_to_is_neither_read_nor_changed(store: Path, tmp_path: Path, mode: str) -> None:
    with store_mounting(tmp_path) as mount:
        mounted = mount(store, "-o", mode)
        for name in (LOG, f"{LOG}.txt", INDEX, "leader-epoch-checkpoint"):
            done = mounted.run(f"cat orders/0/segments/{name}")
            assert (done.returncode, done.stdout) == (1, "")
            assert "Too many levels of symbolic links" in done.stderr
        assert "secret" not in mounted.run("cat orders/0/values orders/0/records.jsonl orders/0/info").stdout
        assert mounted.run("ls orders").stdout.split() == ["0", "2", "config"]
        assert mounted.run("cat orders/1/segments/*").stdout == ""
        assert mounted.run("cat orders/2/values").stdout == "value\n"
        if mode == "rw":
            assert mounted.run("echo more >> orders/0/append").returncode != 0
            assert mounted.run("echo more >> orders/2/append").returncode == 0
        assert f"{store}/orders-0/{LOG}: is a symbolic link, which kafkafs does not follow" in mounted.said()
        mounted.end()
    assert (tmp_path / "outside" / LOG).read_bytes() == b"secret"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == [LOG]


def test_a_partition_that_becomes_a_link_is_not_followed(store: Path, tmp_path: Path) -> None:
    with store_mounting(tmp_path) as mount:
        mounted = mount(store, "-o", "ro")
        assert mounted.run("cat orders/2/values").stdout == "value\n"
        (store / "orders-2").rename(tmp_path / "gone")
        (store / "orders-2").symlink_to(tmp_path / "outside")
        assert "secret" not in mounted.run(f"cat orders/2/segments/{LOG} orders/2/segments/*").stdout
        assert (tmp_path / "outside" / LOG).read_bytes() == b"secret"
        assert mounted.run("cat .kafkafs/log").returncode == 0
        mounted.end()


def test_a_partition_that_is_a_link_is_followed_if_the_operator_says_so(store: Path, tmp_path: Path) -> None:
    """Links in the partition are not."""
    (store / "orders-1").unlink()
    (store / "orders-1").symlink_to(tmp_path / "moved")
    with store_mounting(tmp_path) as mount:
        mounted = mount(store, "-o", "rw,follow_links")
        assert mounted.run("ls orders").stdout.split() == ["0", "1", "2", "config"]
        assert mounted.run("cat orders/1/values").stdout == "value\n"
        done = mounted.run("echo more >> orders/1/append && cat orders/1/values")
        assert (done.stdout, done.stderr) == ("value\nmore\n", "")
        (tmp_path / "moved" / "notes").symlink_to(tmp_path / "outside" / LOG)
        done = mounted.run("cat orders/1/segments/notes")
        assert (done.returncode, done.stdout) == (1, "")
        assert mounted.end() == 0
    assert b"more" in (tmp_path / "moved" / LOG).read_bytes()
