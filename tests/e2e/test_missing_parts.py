"""A store with broken or removed parts: the mount serves the rest, and says what is gone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from mounts import Mounted
    from small_disks import SmallDisk

    Disks = Callable[..., SmallDisk]
    Mounts = Callable[..., Mounted]

pytestmark = pytest.mark.e2e

GONE_S_MAX = 3
"""A second, for a machine that has nothing else to do."""


def fill(mounted: Mounted, *topics: str) -> None:
    for topic in topics:
        done = mounted.run(f"mkdir {topic} && seq -f {topic}-%g 3 >> {topic}/0/append")
        assert (done.returncode, done.stderr) == (0, "")


def text(topic: str) -> str:
    return "".join(f"{topic}-{number}\n" for number in (1, 2, 3))


def values(mounted: Mounted, topic: str) -> str:
    done = mounted.run(f"cat {topic}/0/values")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def topics(mounted: Mounted) -> list[str]:
    return mounted.run("ls | grep -v by-time").stdout.split()


class TestARemovedPartition:
    def test_no_writer_gets_a_success(self, store_mounts: Mounts, tmp_path: Path) -> None:
        mounted = store_mounts(tmp_path / "store")
        fill(mounted, "kept", "removed")
        with mounted.started(
            "exec 3>>removed/0/append; read -r _; echo x >&3; echo $?; cat removed/0/values"
        ) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            mounted.until(lambda: Path("/proc", str(writer.pid), "fd", "3").exists())
            shutil.rmtree(tmp_path / "store" / "removed-0")
            writer.stdin.write("go\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "1\n"
        assert f"{tmp_path}/store/removed-0 has been removed, so nothing can be stored in it (EIO)" in mounted.said()

    @pytest.mark.parametrize("how", ["rm -r", "mv -t ../aside"])
    def test_its_name_vanishes_and_the_rest_goes_on(self, store_mounts: Mounts, tmp_path: Path, how: str) -> None:
        mounted = store_mounts(tmp_path / "store")
        fill(mounted, "kept", "removed")
        with mounted.started("tail -f kept/0/values") as follower:
            (tmp_path / "aside").mkdir()
            subprocess.run(f"{how} {tmp_path}/store/removed-0", shell=True, cwd=tmp_path / "store", check=True)
            mounted.until(lambda: topics(mounted) == ["kept"], seconds=GONE_S_MAX)
            assert mounted.run("ls removed/0; echo x >> removed/0/append").returncode == 1
            assert mounted.run("echo more >> kept/0/append").returncode == 0
            assert follower.stdout is not None
            assert [follower.stdout.readline() for _ in range(4)] == [*text("kept").splitlines(keepends=True), "more\n"]
        assert f"removed-0 is gone: somebody removed its directory from {tmp_path}/store" in mounted.said()
        fill(mounted, "removed")
        assert values(mounted, "removed") == text("removed")
        assert mounted.end() == 0


class TestALogDirThatIsTakenAway:
    @pytest.mark.parametrize("inside", ["", "store"])
    def test_the_others_go_on(self, store_mounts: Mounts, small_disks: Disks, tmp_path: Path, inside: str) -> None:
        disk = small_disks(megabytes=256)
        shutil.rmtree(disk.path / "lost+found")
        other = disk.path / inside if inside else disk.path
        mounted = store_mounts(f"{tmp_path / 'store'},{other}")
        fill(mounted, "here", "there")
        assert (other / "there-0").is_dir()
        disk.detach()
        mounted.until(lambda: topics(mounted) == ["here"], seconds=GONE_S_MAX)
        assert f"the log directory {other} and all that is in it are gone" in mounted.said()
        for command in ("cat there/0/values", "echo x >> there/0/append", "stat there"):
            mounted.until(lambda: "No such file" in mounted.run(command).stderr, seconds=GONE_S_MAX)  # noqa: B023
            assert mounted.run(command).returncode == 1
        fill(mounted, "second", "third")
        assert values(mounted, "here") + values(mounted, "third") == text("here") + text("third")
        assert (tmp_path / "store" / "third-0").is_dir()

        disk.attach()
        mounted.until(lambda: "there" in topics(mounted), seconds=GONE_S_MAX)
        assert values(mounted, "there") == text("there")
        assert mounted.run("echo more >> there/0/append").returncode == 0
        assert mounted.end() == 0
        again = store_mounts(f"{tmp_path / 'store'},{other}")
        assert values(again, "there") == text("there") + "more\n"
        again.end()

    def test_what_comes_in_its_place_is_left_alone(
        self, store_mounts: Mounts, small_disks: Disks, tmp_path: Path
    ) -> None:
        disk = small_disks(megabytes=128)
        shutil.rmtree(disk.path / "lost+found")
        mounted = store_mounts(f"{tmp_path / 'store'},{disk.path}")
        fill(mounted, "here", "there")
        disk.detach()
        mounted.until(lambda: topics(mounted) == ["here"], seconds=GONE_S_MAX)
        mounted.end()
        assert list(disk.path.iterdir()) == []
        assert "Traceback" not in mounted.said()
        assert (tmp_path / "store" / ".kafka_cleanshutdown").exists()


class TestABrokenStore:
    @pytest.mark.parametrize("mode", ["ro", "rw"])
    def test_each_partition_is_broken_on_its_own(self, store_mounts: Mounts, tmp_path: Path, mode: str) -> None:
        store = tmp_path / "store"
        mounted = store_mounts(store)
        broken = ["no-log", "no-metadata", "damaged", "no-index", "no-directory", "no-epochs", "no-snapshot"]
        fill(mounted, "sound", *broken)
        mounted.end()
        log = "00000000000000000000.log"
        (store / "no-log-0" / log).unlink()
        (store / "no-log-0" / log).mkdir()
        (store / "no-metadata-0" / "partition.metadata").write_text("nonsense")
        with (store / "damaged-0" / log).open("r+b") as file:
            file.seek(61)
            file.write(b"\xff" * 8)
        (store / "no-index-0" / log.replace(".log", ".index")).write_bytes(b"nonsense")
        shutil.rmtree(store / "no-directory-0")
        (store / "no-directory-0").touch()
        (store / "no-epochs-0" / "leader-epoch-checkpoint").write_bytes(b"nonsense")
        for snapshot in (store / "no-snapshot-0").glob("*.snapshot"):
            snapshot.write_bytes(b"nonsense")

        mounted = store_mounts(store, "-o", mode)
        assert topics(mounted) == sorted({"sound", *broken} - {"no-directory"})
        for topic in ("sound", "no-index", "no-epochs", "no-snapshot"):
            assert values(mounted, topic) == text(topic)
        for topic in ("no-log", "damaged"):
            assert mounted.run(f"cat {topic}/0/values").returncode == 1
            assert f"{topic}-0" in mounted.said()
        if mode == "ro":  # a topic whose id cannot be read is read, by unknown settings, and not written
            assert values(mounted, "no-metadata") == text("no-metadata")
        else:
            assert mounted.run("cat no-metadata/0/values").returncode == 1
            assert "no-metadata-0" in mounted.said()
        appended = mounted.run("echo 4 >> sound/0/append")
        assert (appended.returncode == 0) == (mode == "rw")
        assert values(mounted, "sound") == text("sound") + ("4\n" if mode == "rw" else "")
        assert "Traceback" not in mounted.said()
        assert mounted.end() == 0

    def test_a_locked_one_is_read_and_not_written(self, store_mounts: Mounts, tmp_path: Path) -> None:
        mounted = store_mounts(tmp_path / "store")
        fill(mounted, "orders")
        command = [sys.executable, "-P", "-m", "kafkafs", "mount", tmp_path / "store", tmp_path / "second"]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert refused.returncode == 3
        assert "a broker or another kafkafs has the store open for writing; stop that, or open it" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert not (tmp_path / "second").exists()
        reader = store_mounts(tmp_path / "store", "-o", "ro", at="reader")
        assert values(reader, "orders") == text("orders")
        assert mounted.run("echo more >> orders/0/append").returncode == 0
        reader.until(lambda: values(reader, "orders") == text("orders") + "more\n", seconds=GONE_S_MAX)
