"""A disk that fills up under a mount: writers hear of it, nothing acknowledged is lost, and all else goes on."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from memory_logs import sent
from shell_writers import check_lines, shell_writers

from storage.clock import Clock
from storage.files import Files
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from mounts import Mounted
    from small_disks import SmallDisk

    Disks = Callable[..., SmallDisk]
    Mounts = Callable[..., Mounted]

pytestmark = pytest.mark.e2e

NO_SPACE = "No space left on device"
SETTINGS = r"segment.bytes=262144\nsegment.index.bytes=65536\n"


def make_topics(mounted: Mounted, *topics: str) -> None:
    for topic in topics:
        done = mounted.run(f"mkdir {topic} && printf '{SETTINGS}' >> {topic}/config")
        assert (done.returncode, done.stderr) == (0, "")


def values(mounted: Mounted, topic: str) -> bytes:
    done = mounted.run_bytes(f"cat {topic}/0/values", timeout_s=60)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_writers_hear_of_it_and_nothing_acknowledged_is_lost(store_mounts: Mounts, small_disks: Disks) -> None:
    disk = small_disks(megabytes=16)
    mounted = store_mounts(disk.path / "store")
    make_topics(mounted, "orders", "other")
    assert mounted.run("echo before >> other/0/append").returncode == 0
    ballast = disk.fill()

    # In pages that a file has already there is room for some more.
    refused = [
        mounted.run("while echo 0123456789012345678901234567890123456789 >> other/0/append; do :; done; exit 7"),
        mounted.run("yes | head -c 3000000 | cat >> orders/0/append"),
        mounted.run("yes | head -c 3000000 | tee -a orders/0/append > /dev/null"),
        mounted.run("yes | head -c 3000000 | dd of=orders/0/append conv=notrunc status=none bs=64k"),
        mounted.run('python3 -c \'open("orders/0/append", "a").write("y\\n" * 3000000)\''),
    ]
    assert [done.returncode != 0 for done in refused] == [True] * len(refused)
    assert [NO_SPACE in done.stderr for done in refused] == [True] * len(refused)
    assert "nothing was changed: No space left on device" in mounted.said()
    before = values(mounted, "other")
    assert before.startswith(b"before\n")
    assert mounted.run("cat other/0/offset/0 other/0/offset/latest.jsonl; ls -l . other/0/offset").returncode == 0

    ballast.unlink()
    assert mounted.run("echo after >> other/0/append").returncode == 0
    # This one was not opened before the disk was full, and opening is not retried at each request.
    mounted.until(lambda: mounted.run("echo after >> orders/0/append").returncode == 0)
    assert values(mounted, "other") == before + b"after\n"
    orders = values(mounted, "orders")
    assert orders.endswith(b"after\n")
    assert mounted.end() == 0
    again = store_mounts(disk.path / "store")
    assert (values(again, "other"), values(again, "orders")) == (before + b"after\n", orders)


def test_what_is_refused_has_changed_nothing(store_mounts: Mounts, small_disks: Disks) -> None:
    """Every write of a small file: the log's start, settings, and a topic or a partition that is to be made."""
    disk = small_disks(megabytes=16)
    mounted = store_mounts(disk.path / "store", "-o", "allow_delete")
    make_topics(mounted, "orders", "other")
    assert mounted.run("seq 10 >> orders/0/append; echo other >> other/0/append").returncode == 0
    seen = "ls -d *; cat orders/config orders/0/log-start-offset orders/0/values other/0/values"
    before = mounted.run(seen)
    ballast = disk.fill()
    for refused in (
        "echo 5 > orders/0/log-start-offset",
        "echo retention.ms=5 >> orders/config",
        "mkdir payments",
        "mkdir orders/1",
    ):
        done = mounted.run(refused)
        assert (done.returncode, NO_SPACE in done.stderr) == (1, True), refused
        after = mounted.run(seen)
        assert (after.stdout, after.stderr) == (before.stdout, before.stderr), refused
    mounted.end(signal.SIGKILL)
    again = store_mounts(disk.path / "store", "-o", "allow_delete")
    assert again.run(seen).stdout == before.stdout
    assert sorted(path.name for path in (disk.path / "store").iterdir() if path.is_dir()) == ["orders-0", "other-0"]
    ballast.unlink()
    # The log could not be opened for writing while the disk was full, and that is not tried at each look.
    again.until(lambda: again.run("echo 5 > orders/0/log-start-offset").returncode == 0)
    done = again.run("mkdir payments && rmdir other && cat orders/0/values")
    assert (done.returncode, done.stdout) == (0, "6\n7\n8\n9\n10\n")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_parallel_writers_fill_it(
    store_mounts: Mounts, small_disks: Disks, tmp_path: Path, end: signal.Signals
) -> None:
    disk = small_disks(megabytes=10)
    ballast = disk.path / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    mounted = store_mounts(disk.path / "store")
    make_topics(mounted, "orders", "other")
    assert mounted.run("echo before >> other/0/append").returncode == 0
    finished = threading.Event()
    longest = Looks(mounted, finished)
    writers = shell_writers(tmp_path, mounted.path, "orders/0/append", lines=20_000)
    acknowledged = [writer.finish() for writer in writers]
    finished.set()
    longest.join()
    assert longest.failures == []
    assert any(each.taken < each.lines for each in acknowledged), "there was room for all"
    written = values(mounted, "orders")
    # What a writer hears no answer to may be there: a pipe's last commands are acknowledged as one.
    assert check_lines(written, acknowledged) > 5_000
    assert values(mounted, "other").startswith(b"before\n")

    if end is signal.SIGTERM:
        # Where no checkpoint can be written that is said, and the next to open the store looks at more of it.
        assert mounted.end(end) in {0, 3}
        assert "Traceback" not in mounted.said()
    else:
        mounted.end(end)
    ballast.unlink()
    again = store_mounts(disk.path / "store")
    assert values(again, "orders") == written
    assert again.run("echo 100:0:0:more >> other/0/append").returncode == 0


class Looks(threading.Thread):
    """Another partition is read all the while."""

    def __init__(self, mounted: Mounted, finished: threading.Event) -> None:
        super().__init__()
        self._mounted = mounted
        self._finished = finished
        self.failures: list[str] = []
        self.start()

    def run(self) -> None:
        while not self._finished.wait(0.05):
            done = self._mounted.run("stat other/0 > /dev/null && cat other/0/offset/0 other/0/values other/0/info")
            if done.returncode or not done.stdout.startswith("before"):
                self.failures.append(done.stdout + done.stderr)


def test_an_unopened_partition_is_read_from_a_full_disk(store_mounts: Mounts, small_disks: Disks) -> None:
    disk = small_disks(megabytes=16)
    mounted = store_mounts(disk.path / "store")
    make_topics(mounted, "orders", "other")
    assert mounted.run("seq 100 >> orders/0/append; echo other >> other/0/append").returncode == 0
    assert mounted.end() == 0
    ballast = disk.fill()

    mounted = store_mounts(disk.path / "store")
    everything = "".join(f"{i}\n" for i in range(1, 101))
    assert values(mounted, "orders") == everything.encode()
    assert mounted.run("cat orders/0/offset/41").stdout == "42"
    for command in ("echo x >> orders/0/append", "echo x > orders/0/append", "echo x | tee -a orders/0/append"):
        done = mounted.run(command)
        assert done.returncode != 0
        assert NO_SPACE in done.stderr
    done = mounted.run("mkdir more")
    assert done.returncode == 1
    assert NO_SPACE in done.stderr
    assert re.search(rf"orders-0 can be read, and not written: (\S+: )?{NO_SPACE}", mounted.said())
    assert values(mounted, "other") == b"other\n"

    ballast.unlink()
    mounted.until(lambda: mounted.run("echo 101 >> orders/0/append").returncode == 0)
    assert values(mounted, "orders") == everything.encode() + b"101\n"
    assert "orders-0 can be written again" in mounted.said()
    assert mounted.end() == 0
    assert values(store_mounts(disk.path / "store"), "orders") == everything.encode() + b"101\n"


@pytest.fixture
def killed_store_on_a_full_disk(small_disks: Disks) -> Callable[..., Path]:
    """Make a store that was killed on a disk without a free block, where recovery needs some for lost indexes."""

    def made(topics: Mapping[str, str]) -> Path:
        disk = small_disks(megabytes=16)
        path = disk.path / "store"
        with Store.create([path], files=Files(), clock=Clock()) as store:
            for topic, retention_bytes in topics.items():
                settings = {"segment.bytes": "200000", "segment.index.bytes": "4096"}
                store.topics.create(topic, 1, {**settings, "retention.bytes": retention_bytes})
                for _ in range(8):
                    store.log(topic, 0).append_as_leader(sent(b"x" * 100_000))
        (path / ".kafka_cleanshutdown").unlink()
        for index in path.glob("*-0/*.timeindex"):
            index.unlink()
        disk.fill()
        return path

    return made


def kafkafs(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "kafkafs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def logs(path: Path, topic: str) -> list[str]:
    return sorted(each.name for each in (path / f"{topic}-0").glob("*.log"))


@pytest.mark.parametrize("named", [["orders"], []])
def test_retention_frees_space_in_one_run_though_no_log_has_the_room_for_its_recovery(
    killed_store_on_a_full_disk: Callable[..., Path], named: list[str]
) -> None:
    """`kept` comes first and has nothing to delete; what `orders` frees lets it be recovered in the same run."""
    path = killed_store_on_a_full_disk({"kept": "-1", "orders": "100"})
    before = logs(path, "orders")
    done = kafkafs("retention", path, *named, "--apply")
    said = "kafkafs: the store was not closed properly: 2 logs were recovered\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert len(logs(path, "orders")) < len(before)
    assert "orders-0: done\n" in done.stdout
    bytes_deleted = int(done.stdout.splitlines()[-1].split(", ")[1].split()[0])
    assert bytes_deleted >= 100_000 * (len(before) - len(logs(path, "orders")))
    assert (path / ".kafka_cleanshutdown").exists()
    assert kafkafs("verify", path).returncode == 0


def test_recovery_without_room_says_so_names_what_it_did_and_leaves_no_file_behind(
    killed_store_on_a_full_disk: Callable[..., Path],
) -> None:
    path = killed_store_on_a_full_disk({"kept": "-1", "orders": "100"})
    torn = path / "orders-0" / logs(path, "orders")[-1]
    with torn.open("r+b") as file:
        file.truncate(torn.stat().st_size - 7)
    done = kafkafs("recover", path, "--apply")
    assert done.returncode == 3
    assert "Errno" not in done.stdout + done.stderr
    assert done.stderr.startswith("kafkafs: the disk is full: free space and run this again")
    _, _, orders = done.stdout.partition("orders-0: failed: ")
    assert NO_SPACE in orders.splitlines()[0]
    assert list(path.glob("*/*.cleaned")) == []
    done = kafkafs("retention", path, "--apply")
    assert done.returncode == 0
    assert kafkafs("verify", path).returncode == 0
