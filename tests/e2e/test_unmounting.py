"""What mounting and unmounting say where a path runs through the mount, a copy of it is held, or a log has failed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from command_mounts import DEADLINE_S, apart, run

from kafkafs.cli.failures import EXIT_FAILED

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

FAILING = """
import os, sys
real = os.fsync
def fsync(descriptor):
    if os.path.exists(os.environ["FAIL"]):
        raise OSError(5, "Input/output error")
    real(descriptor)
os.fsync = fsync
from kafkafs.cli import main
sys.argv[0] = "kafkafs"
main()
"""


class TestUmountSaysWhatIsLeft:
    HELD = "$KAFKAFS mount store mnt >/dev/null; mkdir mnt/orders other; echo x >> mnt/orders/0/append; "

    def test_another_name_space_holds_it(self, place: Path) -> None:
        script = """
exec {held}< <(exec unshare -m --propagation private sh -c 'echo; exec sleep 100'); sleeper=$!; read -r _ <&$held
$KAFKAFS umount mnt; echo $?
$KAFKAFS mount store other; echo $?
$KAFKAFS umount mnt; echo $?
$KAFKAFS umount --force mnt; echo $?
$KAFKAFS cat store orders/0/values; ls -A store | grep clean
kill $sleeper
"""
        done = apart(self.HELD + script, place)
        failed = str(EXIT_FAILED)
        assert done.stdout.splitlines() == [failed, failed, failed, "0", "x", ".kafka_cleanshutdown"], done.stderr
        first, second, third = done.stderr.replace("kafkafs: made a store in store\n", "").splitlines()
        holder = rf"sleep \(process \d+, mount name space \d+, at {place}/mnt\)"
        what_to_do = rf"unmount it there, or end it with `kafkafs umount --force {place}/mnt`"
        here = rf"kafkafs: mnt is detached here, but still held by {holder}, so its store stays open: {what_to_do}"
        assert re.fullmatch(here, first)
        assert re.fullmatch(here, third)
        there = rf"{place}/store is open for writing in a mount that was detached and is still held by {holder}"
        assert re.fullmatch(rf"kafkafs: {there}: {what_to_do}", second)

    def test_a_bind_mount_holds_it(self, place: Path) -> None:
        script = """
mkdir bound; mount --bind mnt/orders bound || exit 77
$KAFKAFS umount mnt; echo $?
$KAFKAFS mount store other; echo $?
cat bound/0/values
$KAFKAFS umount --force bound; echo $?
$KAFKAFS mount store mnt >/dev/null && mount --bind mnt/orders bound
$KAFKAFS umount --force mnt; echo $?; findmnt -n -t fuse.kafkafs | grep "^$PWD/"; ls -A store | grep clean
"""
        done = apart(self.HELD + script, place)
        failed = str(EXIT_FAILED)
        assert done.stdout.splitlines() == [failed, failed, "x", "0", "0", ".kafka_cleanshutdown"], done.stderr
        assert done.stderr.count(f"still held by the mount at {place}/bound") == 2
        assert done.stderr.count(f"`kafkafs umount --force {place}/bound`") == 2

    def test_a_log_has_failed(self, place: Path) -> None:
        command = [sys.executable, "-P", "-c", FAILING, "mount", "--foreground", "store", "mnt"]
        environment = {**os.environ, "FAIL": str(place / "fail"), "XDG_CACHE_HOME": str(place / "cache")}
        server = subprocess.Popen(
            command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert server.stdout is not None
        server.stdout.readline()
        assert run("mkdir mnt/orders mnt/sound && echo x | tee mnt/*/0/append", place).returncode == 0
        assert "Input/output error" in run("touch fail; sync mnt/orders/0/append; rm fail", place).stderr
        done = run("$KAFKAFS umount mnt", place)
        sentence = "its store was not closed properly: writing to orders-0 has failed, as the mount's log says"
        assert done.stderr == f"kafkafs: mnt is unmounted, but {sentence}; the next mount recovers what was stored\n"
        assert (done.returncode, server.wait(DEADLINE_S)) == (EXIT_FAILED, EXIT_FAILED)
        server.stdout.close()
        again = run(
            "$KAFKAFS mount store mnt >&2; cat mnt/*/0/values; cat mnt/.kafkafs/log; $KAFKAFS umount mnt", place
        )
        assert again.returncode == 0
        assert again.stdout.startswith("x\nx\n")
        unclean = f"{place}/store was not closed properly: each of 2 partitions is recovered in the background"
        assert unclean in again.stdout
        assert "orders-0 was recovered: " in again.stdout


class TestUmountOfWhatIsNotMountedHere:
    """A mount that another mount name space has made at the same path is not ours to end."""

    def test_force_leaves_another_name_space_alone(self, place: Path) -> None:
        script = """
mkdir mnt
exec {told}< <(exec unshare -m --propagation private bash -c '
    $KAFKAFS mount store mnt >/dev/null; readlink /proc/self/ns/mnt; sed -n s/^pid=//p mnt/.kafkafs/options
    exec sleep 100'); sleeper=$!
read -r namespace <&$told; read -r server <&$told; echo $namespace $server
$KAFKAFS umount mnt; echo $?
$KAFKAFS umount --force mnt; echo $?
$KAFKAFS mount store other; echo $?
grep pid= /proc/$sleeper/root$PWD/mnt/.kafkafs/options
kill $server; tail --pid=$server -f /dev/null; kill $sleeper; ls -A store | grep clean
"""
        done = apart(script, place)
        (told, *codes, answers, clean) = done.stdout.splitlines()
        namespace, server = re.fullmatch(r"mnt:\[(\d+)\] (\d+)", told).groups()  # type: ignore[union-attr]
        assert (codes, answers, clean) == (["1", "1", "3"], f"pid={server}", ".kafka_cleanshutdown"), done.stderr
        where = f"mounted in mount name space {namespace} by process {server}"
        refused = f"kafkafs: mnt is {where}, not here: unmount it there"
        elsewhere = f"it is {where} at {place}/mnt, not here; unmount it there"
        assert done.stderr.replace("kafkafs: made a store in store\n", "").splitlines() == [
            refused,
            refused,
            f"kafkafs: {place}/store is open for writing elsewhere: {elsewhere}",
        ]


class TestUmountByAnotherPath:
    """A mount is found by every path that leads to it, and is not looked into for that."""

    @pytest.mark.parametrize("path", ["link", "to/link", "mnt/../link", "mnt/."])
    def test_through_a_link(self, place: Path, path: str) -> None:
        made = "ln -s mnt link; ln -s . to; $KAFKAFS mount store link >/dev/null"
        done = run(f"mkdir mnt; {made}; $KAFKAFS umount {path}; echo $?; findmnt $PWD/mnt", place)
        assert done.stdout == "0\n", done.stderr

    def test_of_a_dead_mount_through_a_link(self, place: Path) -> None:
        done = run(
            "$KAFKAFS mount store mnt >/dev/null; ln -s mnt link; server=$(sed -n s/^pid=//p mnt/.kafkafs/options)\n"
            "kill -9 $server; tail --pid=$server -f /dev/null; $KAFKAFS umount link; echo $?; findmnt $PWD/mnt",
            place,
        )
        assert done.stdout == "0\n", done.stderr

    def test_what_is_in_use_is_named_through_a_link(self, place: Path) -> None:
        done = run(
            "$KAFKAFS mount store mnt >/dev/null; ln -s mnt link; exec 5< mnt/.kafkafs/options\n"
            "$KAFKAFS umount link; exec 5<&-; $KAFKAFS umount link",
            place,
        )
        assert re.search(r"kafkafs: link is in use by bash \(process \d+, .*/mnt/.kafkafs/options\): ", done.stderr)
        assert done.returncode == 0, done.stderr


class TestAProcessThatIsStopped:
    """A question to it has no end, so that none is asked in the command's own process."""

    STOPPED = """
$KAFKAFS mount store mnt >/dev/null; mkdir mnt/orders; echo x >> mnt/orders/0/append
server=$(sed -n s/^pid=//p mnt/.kafkafs/options); echo $server
stop() { kill -STOP $2; while timeout -s KILL 0.5 stat $1; do :; done; } >/dev/null 2>&1  # the kernel has to ask it
stop mnt $server
"""
    REFUSED = "kafkafs: process {0}, which serves {1}, does not answer (stopped, state T): "

    @pytest.mark.parametrize("path", ["mnt", "link"])
    def test_umount_says_so_and_leaves_it(self, place: Path, path: str) -> None:
        done = run(
            self.STOPPED
            + f"ln -s mnt link; timeout -s KILL 60 $KAFKAFS umount {path}; echo $?; kill -CONT $server\n"
            + "cat mnt/orders/0/values; $KAFKAFS umount mnt; echo $?",
            place,
        )
        server, *rest = done.stdout.splitlines()
        assert rest == [str(EXIT_FAILED), "x", "0"], done.stderr
        what_to_do = f"continue it with `kill -CONT {server}`, or end it with `kafkafs umount --force {path}`"
        assert done.stderr.splitlines()[1:] == [self.REFUSED.format(server, path) + what_to_do]

    def test_force_continues_and_ends_it(self, place: Path) -> None:
        done = run(
            self.STOPPED
            + "timeout -s KILL 60 $KAFKAFS umount --force mnt; echo $?; findmnt $PWD/mnt; ls -A store | grep clean",
            place,
        )
        server, *rest = done.stdout.splitlines()
        assert rest == ["0", ".kafka_cleanshutdown"], done.stderr
        assert done.stderr.splitlines()[1] == self.REFUSED.format(server, "mnt") + "it gets SIGTERM and SIGCONT"

    def test_mount_and_demo_say_so(self, place: Path) -> None:
        done = run(
            self.STOPPED
            + "timeout -s KILL 60 $KAFKAFS mount store mnt; echo $?\n"
            + "$KAFKAFS demo d >/dev/null; demo=$(sed -n s/^pid=//p d/mnt/.kafkafs/options); stop d/mnt $demo\n"
            + "timeout -s KILL 60 $KAFKAFS demo d >/dev/null; echo $?\n"
            + "kill -CONT $server $demo; $KAFKAFS umount mnt; $KAFKAFS umount d/mnt",
            place,
        )
        assert done.stdout.splitlines()[1:] == [str(EXIT_FAILED)] * 2, done.stderr
        for path, store in (("mnt", "store"), ("d/mnt", "d/store")):
            place_text = f"{place}/{path}: {place}/{store} is mounted here, and does not answer"
            assert re.search(
                rf"^kafkafs: {place_text}; `kafkafs umount --force {place}/{path}` ends it$", done.stderr, re.MULTILINE
            )

    def test_one_that_cannot_be_continued_loses_its_mount(self, place: Path) -> None:
        tracer = """
import ctypes, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
assert libc.ptrace(16, int(sys.argv[1]), 0, 0) == 0, ctypes.get_errno()  # PTRACE_ATTACH stops it for good
print(flush=True)
signal.pause()
"""
        (place / "tracer.py").write_text(tracer)
        script = f"""
$KAFKAFS mount store mnt >/dev/null; server=$(sed -n s/^pid=//p mnt/.kafkafs/options); echo $server
exec {{told}}< <(exec {sys.executable} tracer.py $server); tracer=$!; read -r _ <&$told
until grep -q "^State:.t" /proc/$server/status; do read -t 0.1 <> <(:); done
(stat mnt/nothing; echo over) 2>&1 & asker=$!
timeout -s KILL 60 $KAFKAFS umount --force mnt; echo $?
wait $asker; findmnt $PWD/mnt
$KAFKAFS mount another other &> /dev/null && $KAFKAFS umount other; echo $?  # which gets the same device number
kill -KILL $server $tracer
"""
        done = run(script, place)
        server, *rest = done.stdout.splitlines()
        assert rest[1:] == ["over", str(EXIT_FAILED), "0"], done.stderr
        silent = f"kafkafs: process {server}, which serves mnt, does not answer (stopped, state t): "
        what_to_do = f"continue it with `kill -CONT {server}`, or end it with `kill -KILL {server}`"
        assert done.stderr.splitlines()[1:] == [
            silent + "it gets SIGTERM and SIGCONT",
            f"kafkafs: process {server} still serves mnt after 10 seconds: its FUSE connection is aborted",
            "kafkafs: mnt is detached",
            f"kafkafs: waiting until process {server} has closed the store of mnt (stopped, state t)",
            f"kafkafs: mnt is unmounted, but process {server} has not closed its store and is stopped: {what_to_do}",
        ]


class TestAStoreBesideItsMountPoint:
    """No path of the process that serves leads through its own mount: it would wait for itself."""

    @pytest.mark.parametrize("how", ["", "--foreground"])
    @pytest.mark.parametrize(("store", "mount_point"), [("../store", "."), ("$W/mnt/../store", "$W/mnt")])
    def test_a_path_that_runs_through_the_mount_point(
        self, place: Path, how: str, store: str, mount_point: str
    ) -> None:
        script = f"""
W=$PWD; mkdir mnt; cd mnt
mount() {{ $KAFKAFS mount {how} {store} {mount_point}; }}
exec {{answers}}< <(mount); read -r _ <&$answers
cd $W/mnt && mkdir orders && echo x >> orders/0/append && ls -l && cat orders/0/values
findmnt -n -o SOURCE $W/mnt
cd $W; $KAFKAFS umount mnt
"""
        done = run(script, place)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-2:] == ["x", f"{place}/store"]

    def test_one_in_the_other_is_refused(self, place: Path) -> None:
        for arguments, sentence in (
            ("mnt/store mnt", "mnt would hide the store, which is in it (mnt/store): mount it elsewhere"),
            ("store store/mnt", "store/mnt is in the store itself (store): mount it elsewhere"),
        ):
            refused = run(f"mkdir -p store mnt; $KAFKAFS mount {arguments}", place)
            assert (refused.returncode, refused.stderr) == (3, f"kafkafs: {sentence}\n")
        hidden = run("mkdir there; XDG_CACHE_HOME=$PWD/there $KAFKAFS mount store there; ls there", place)
        assert "there would hide what kafkafs keeps of sizes, which is in it" in hidden.stderr
        assert hidden.stdout == ""
        assert list((place / "store").iterdir()) == []


class TestAStoreThatCannotBeLocked:
    def test_on_a_read_only_file_system(self, place: Path) -> None:
        assert run("$KAFKAFS topics create store orders; echo x | $KAFKAFS append store orders/0/append", place)
        script = """
mount --bind store store && mount -o remount,bind,ro store || exit 77
$KAFKAFS mount store mnt; echo $?
$KAFKAFS mount store mnt -o ro >/dev/null && cat mnt/orders/0/values && $KAFKAFS umount mnt
"""
        done = apart(script, place)
        assert done.stdout == f"{EXIT_FAILED}\nx\n", done.stderr
        reason = f"{place}/store/.lock: Read-only file system"
        sentence = f"{place}/store cannot be opened for writing ({reason}): mount it with -o ro"
        assert done.stderr == f"kafkafs: {sentence}\n"
