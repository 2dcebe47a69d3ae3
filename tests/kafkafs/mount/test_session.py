"""A mount begins and ends cleanly, by every way of ending it, and a dead one does not block the next."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest
import trio

from kafkafs.mount import session
from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.answering import is_dead
from kafkafs.mount.mountpoints.kernel_mount import sentence_for
from kafkafs.mount.mountpoints.mount_point import mount_point
from kafkafs.mount.mountpoints.mounts import mount_at, uses_of
from kafkafs.mount.mountpoints.unmounting import unmount
from kafkafs.mount.options import parse_options
from kafkafs.mount.process import taking_effect_afterwards
from kafkafs.mount.session import BUSY_S, CACHE_LOOKS, Deadline, Quiet, Session, kernel_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from mounts import Mounted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_even_with_files_open(mounted: Mounted, number: int) -> None:
    descriptor = os.open(mounted.path / "orders/0/values", os.O_RDONLY)
    assert mounted.end(number) == 0
    with pytest.raises(OSError, match="not connected") as gone:
        os.read(descriptor, 100)
    assert gone.value.errno == errno.ENOTCONN
    with pytest.raises(OSError, match="not connected"):
        os.close(descriptor)
    assert "the tree is closed" in mounted.said()
    assert not mounted.path.exists()


def test_a_signal_does_not_wait_for_a_read_that_never_ends(mounted: Mounted) -> None:
    with mounted.started("cat orders/0/transactions; echo ended") as stuck:
        mounted.until(lambda: bool(uses_of(mounted.path)))
        assert mounted.end() == 0
        assert stuck.stdout is not None
        assert stuck.stdout.readline() == "ended\n"


def test_a_write_in_flight_is_finished(mounted: Mounted) -> None:
    code = "import os; print(os.write(os.open('gates/0/append', 1), b'wait a %0100000d\\n' % 0), flush=True)"
    order = f'{sys.executable} -c "{code}"'
    with mounted.started(order) as writer:
        mounted.until(lambda: any(use.path.endswith("append") for use in uses_of(mounted.path)))
        mounted.process.send_signal(signal.SIGTERM)
        mounted.until(lambda: "SIGTERM ends the mount" in mounted.said())
        mounted.process.send_signal(signal.SIGUSR1)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "100008\n"
    assert mounted.process.wait(20) == 0


def test_umount_refuses_while_it_is_used_and_names_who(mounted: Mounted) -> None:
    with mounted.started("exec 3< orders/0/values; echo open; read -r _") as user:
        assert user.stdout is not None
        user.stdout.readline()
        with pytest.raises(MountError, match=rf"in use by bash \(process {user.pid}, .*values\).*--force"):
            unmount(mounted.path, is_forced=False)
        assert mounted.run("cat orders/0/offset/0").stdout == "one"
        unmount(mounted.path, is_forced=True)
    assert mounted.process.wait(20) == 0


def test_umount_returns_when_the_tree_is_closed(mounted: Mounted) -> None:
    unmount(mounted.path, is_forced=False)
    assert "the tree is closed" in mounted.said()
    assert mounted.process.wait(20) == 0
    assert mount_at(mounted.path) is None
    with pytest.raises(MountError, match="nothing of kafkafs is mounted here"):
        unmount(mounted.path, is_forced=False)


def test_a_dead_mount_is_healed_by_the_next(mounting: Callable[..., Mounted]) -> None:
    first = mounting()
    first.end(signal.SIGKILL)
    assert is_dead(first.path)
    second = mounting()
    assert second.run("cat orders/0/offset/0").stdout == "one"
    assert "a mount whose process had died was taken away" in second.said()


def test_a_dead_mount_can_be_unmounted(mounted: Mounted) -> None:
    mounted.end(signal.SIGKILL)
    unmount(mounted.path, is_forced=False)
    assert mount_at(mounted.path) is None


def test_auto_unmount_leaves_nothing_dead(mounting: Callable[..., Mounted]) -> None:
    mounted = mounting("auto_unmount")
    mounted.end(signal.SIGKILL)
    mounted.until(lambda: mount_at(mounted.path) is None)


def test_auto_unmount_works_where_dying_takes_its_time(mounting: Callable[..., Mounted]) -> None:
    for number in range(15):  # one in four of these was left dead
        mounted = mounting("auto_unmount", at=f"mnt{number}")
        first = min(os.sched_getaffinity(0))
        for process in (mounted.process.pid, _watcher(mounted.path)):
            for task in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208 -- names are all that is wanted
                os.sched_setaffinity(int(task), {first})
                if process == mounted.process.pid:
                    os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))
        mounted.end(signal.SIGKILL)
        mounted.until(lambda path=mounted.path: mount_at(path) is None)  # type: ignore[misc]


def _watcher(path: Path) -> int:
    """The fusermount3 that is to take the mount away."""
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (directory / "cmdline").read_bytes().split(b"\0")
            if b"fusermount3" in command[0] and os.fsencode(path) in command:
                return int(directory.name)
    pytest.fail(f"no fusermount3 watches {path}")


def test_streams_are_read_ahead_in_large_requests(mounted: Mounted) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root, who alone may say so")
    mount = mount_at(mounted.path)
    assert mount is not None
    assert Path(f"/sys/class/bdi/{mount.device}/read_ahead_kb").read_text() == "1024\n"


def test_what_fails_is_counted_and_said(mounted: Mounted) -> None:
    mounted.run("cat orders/0/offset/9; cat orders/0/offset/1; echo a >> orders/0/append")
    metrics = mounted.run("cat .kafkafs/metrics").stdout
    assert 'kafkafs_request_errors_total{operation="lookup",errno="ENOENT"}' in metrics
    assert "\nkafkafs_written_bytes_total 2\n" in metrics
    assert 'kafkafs_request_duration_seconds_bucket{operation="read",le="+Inf"}' in metrics


def test_libfuse_is_told_a_path_as_its_bytes() -> None:
    source = os.fsdecode("/données/日本/".encode() + b"\xff,\\")
    told = {each.encode("us-ascii") for each in kernel_options(parse_options(["ro"]), source, is_read_only=True)}
    name = "fsname=/données/日本/".encode() + b"\xff\\,\\\\"
    assert told == {name, b"subtype=kafkafs", b"default_permissions", b"ro"}


class TestMountPoints:
    def test_one_that_is_made_is_removed(self, tmp_path: Path) -> None:
        with mount_point(tmp_path / "mnt", [tmp_path / "store"]) as place:
            assert place.is_dir()
        assert not (tmp_path / "mnt").exists()

    def test_one_that_was_there_stays(self, tmp_path: Path) -> None:
        (tmp_path / "mnt").mkdir()
        with mount_point(tmp_path / "mnt", [tmp_path / "store"]):
            pass
        assert (tmp_path / "mnt").is_dir()

    @pytest.mark.parametrize(
        ("place", "sentence"),
        [
            ("file", "is not a directory"),
            ("full", "is not empty"),
            ("none/mnt", "make that first"),
            ("store/mnt", "is in the store itself"),
            ("store", "is in the store itself"),
        ],
    )
    def test_others_are_refused(self, tmp_path: Path, place: str, sentence: str) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "file").touch()
        (tmp_path / "store").mkdir()
        with pytest.raises(MountError, match=sentence), mount_point(tmp_path / place, [tmp_path / "store"]):
            pass

    def test_one_that_is_mounted_is_refused(self, mounted: Mounted, tmp_path: Path) -> None:
        with (
            pytest.raises(MountError, match="memory is mounted here already"),
            mount_point(mounted.path, [tmp_path / "x"]),
        ):
            pass


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.kernel_mount import mounted
import pyfuse3
os.setgid(65534); os.setuid(65534)
try:
    with mounted(pyfuse3.Operations(), Path(sys.argv[1]), {"fsname=x", *sys.argv[2:]}):
        print("mounted")
except MountError as error:
    print(error)
"""


WITH_A_FUSE_FOR_ROOT = """
mknod --mode=600 "$0/fuse" c 10 229 && mount --bind "$0/fuse" /dev/fuse && exec "$@"
"""


@pytest.mark.parametrize(
    ("mode", "sentence"), [(0o777, "/dev/fuse may not be opened by this user"), (0o700, "this user cannot get to")]
)
def test_who_has_no_rights_reads_one_sentence(mode: int, sentence: str) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot have a /dev/fuse of his own")
    with tempfile.TemporaryDirectory() as parent:  # pytest's own directories are closed to others
        place = Path(parent) / "mnt"
        place.mkdir()
        place.chmod(0o777)
        Path(parent).chmod(mode)
        done = subprocess.run(
            ["unshare", "-m", "bash", "-c", WITH_A_FUSE_FOR_ROOT, parent, sys.executable, "-c", UNPRIVILEGED, place],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stderr == ""
    assert done.stdout.startswith(f"{place}: {sentence}")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("said", "sentence"),
    [  # as libfuse 3.14 and its fusermount3 say it
        ("fuse: failed to open /dev/fuse: Permission denied", "may not be opened by this user"),
        ("fuse: device not found, try 'modprobe fuse' first", "there is no /dev/fuse"),
        (
            "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf",
            "add a line `user_allow_other`",
        ),
        ("fusermount3: mount failed: Operation not permitted", "this user may not mount"),
        ("fusermount3: user has no write access to mountpoint /x", "choose one of his own"),
        ("something new\nin two lines", "it cannot be mounted: something new in two lines"),
    ],
)
def test_what_libfuse_says_becomes_what_to_do(said: str, sentence: str) -> None:
    assert sentence in sentence_for(said)
    assert "\n" not in sentence_for(said)


def test_memory_is_given_back_once_a_busy_time_has_ended() -> None:
    used_s: list[float] = []
    given_at: list[int] = []
    caches_at: list[int] = []
    quiet = Quiet(
        lambda: given_at.append(len(used_s)), lambda: caches_at.append(len(used_s)), used_s=lambda: sum(used_s)
    )
    busy, idle = 2 * BUSY_S, BUSY_S / 2
    for each_s in (idle, busy, busy, idle, idle, idle, busy, *[idle] * (2 * CACHE_LOOKS)):
        used_s.append(each_s)
        trio.run(quiet.look)
    assert given_at == [4, 8]
    assert caches_at == [7 + CACHE_LOOKS]


def test_requests_that_do_not_end_do_not_keep_the_process() -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    deadline = Deadline(Path("/m"), seconds=0, end=ended.put)
    deadline.begin()
    deadline.begin()
    assert ended.get(timeout=60) == 1


def test_a_deadline_that_is_met_ends_nothing() -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    deadline = Deadline(Path("/m"), seconds=3600, end=ended.put)
    deadline.begin()
    deadline.close()
    deadline._timer.join(60)
    assert not deadline._timer.is_alive()
    assert ended.empty()


def test_a_second_signal_while_it_ends_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trio delivers a signal once more that it was given and nothing took."""
    served = Session(None, tmp_path, set())  # type: ignore[arg-type]
    monkeypatch.setattr(session.pyfuse3, "terminate", lambda: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(session, "GRACE_S", 0)
    taken = []

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(served._end_on_signal, nursery.cancel_scope, lambda: taken.append(1))
            signal.raise_signal(signal.SIGTERM)

    with closing(served._deadline), taking_effect_afterwards([signal.SIGTERM]):
        trio.run(serve)
    assert taken == [1]
