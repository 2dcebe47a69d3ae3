"""Ways to mount and unmount: the command itself, mount(8) and fstab, systemd, other users, and where there is no FUSE.

What would change the machine is done in a mount name space of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command_mounts import DEADLINE_S, KAFKAFS, apart, run

from kafkafs.mount.mountpoints.mounts import mount_at

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "scripts" / "packaging" / "kafkafs@.service"


class TestTheCommand:
    def test_it_returns_when_the_mount_answers(self, place: Path) -> None:
        done = run("$KAFKAFS mount store mnt && echo mkdir && mkdir mnt/orders && echo x >> mnt/orders/0/append", place)
        assert done.returncode == 0, done.stderr
        path, hint, after = done.stdout.splitlines()
        assert (path, after) == ("mnt", "mkdir")
        assert hint.startswith("try: ")
        again = run("$KAFKAFS mount store mnt", place)
        assert again.returncode == 3
        assert "is mounted here already; `kafkafs umount" in again.stderr
        assert run("$KAFKAFS umount mnt; cat mnt/orders/0/values; ls store/.kafka_cleanshutdown", place).returncode == 0

    def test_umount_names_who_uses_it(self, place: Path) -> None:
        assert run("$KAFKAFS mount store mnt && mkdir mnt/orders", place).returncode == 0
        user = subprocess.Popen(["bash", "-c", "exec 3<mnt/orders/0/values; echo; read -r _"], cwd=place, **PIPES)
        try:
            assert user.stdout is not None
            user.stdout.readline()
            refused = run("$KAFKAFS umount mnt", place)
            assert refused.returncode == 3
            assert re.search(
                rf"mnt is in use by bash \(process {user.pid}, .*/mnt/orders/0/values\): end these, or unmount it with"
                " --force\n$",
                refused.stderr,
            )
            assert refused.stderr.count("\n") == 1
            assert run("echo x >> mnt/orders/0/append && cat mnt/orders/0/values", place).stdout == "x\n"
            assert run("$KAFKAFS umount --force mnt", place).returncode == 0
            assert mount_at(place / "mnt") is None
        finally:
            user.communicate("\n", timeout=DEADLINE_S)
        assert run("$KAFKAFS umount mnt", place).stderr.count("nothing of kafkafs is mounted here") == 1
        assert run("$KAFKAFS cat store orders/0/values", place).stdout == "x\n"

    def test_a_dead_mount_is_told_and_healed(self, place: Path) -> None:
        script = "$KAFKAFS mount store mnt && mkdir mnt/orders && echo x >> mnt/orders/0/append"
        assert run(script, place).returncode == 0
        os.kill(int(re.findall(r"(?m)^pid=(\d+)", (place / "mnt/.kafkafs/options").read_text())[0]), signal.SIGKILL)
        # Those that the kernel still answers end when the connection does.
        dead = run("while stat mnt/orders > /dev/null 2>&1; do :; done; stat mnt/orders", place)
        assert "Transport endpoint is not connected" in dead.stderr
        healed = run("$KAFKAFS mount store mnt && cat mnt/orders/0/values && $KAFKAFS umount mnt", place)
        assert healed.returncode == 0, healed.stderr
        assert healed.stdout.endswith("x\n")

    @pytest.mark.parametrize("name", [b"donn\xc3\xa9es", b"\xe6\x97\xa5\xe6\x9c\xac", b"\xff\\ b,c\n# "])
    def test_a_store_may_be_at_any_path(self, place: Path, name: bytes) -> None:
        directory = place / os.fsdecode(name)
        directory.mkdir()
        for locale in ("C", "C.UTF-8"):
            script = "$KAFKAFS mount store ../mnt && mkdir -p ../mnt/orders && echo x >> ../mnt/orders/0/append"
            done = run(script, directory, LC_ALL=locale)
            assert done.returncode == 0, done.stderr
            mount = mount_at(place / "mnt")
            assert mount is not None
            assert os.fsencode(mount.source) == os.fsencode(directory / "store")
            shown = subprocess.check_output(["cat", place / "mnt/.kafkafs/README", place / "mnt/.kafkafs/options"])
            escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
            assert shown.count(b"%b/%b/store\n" % (os.fsencode(place), escaped)) == 2
            assert run("$KAFKAFS umount mnt", place, LC_ALL=locale).returncode == 0
        assert [path for path in place.iterdir() if path.name != "cache"] == [directory]
        assert run("$KAFKAFS cat store orders/0/values", directory).stdout == "x\nx\n"

    def test_a_comma_in_the_way_leads_to_no_other_directory(self, place: Path) -> None:
        for name in ("a", "a,b"):
            (place / name).mkdir()
        (place / "link").symlink_to("a,b")
        for script in ("cd a,b && $KAFKAFS mount st ../mnt", "$KAFKAFS mount link/one,link/other mnt"):
            done = run(f"{script} && ls mnt ../mnt", place)
            assert "Traceback" not in done.stderr
            assert run("$KAFKAFS umount mnt", place).returncode == 0, done.stderr
            assert {path.name for path in place.iterdir()} - {"cache"} == {"a", "a,b", "link"}
            assert not list((place / "a").iterdir())
            assert (place / "a,b" / "st" / "meta.properties").exists()

    def test_links_that_lead_nowhere_make_no_store(self, place: Path) -> None:
        (place / "dangling").symlink_to("nowhere")
        (place / "loop").symlink_to("loop")
        said = {"dangling mnt": "is a link to", "loop mnt": "Too many levels", "store loop": "Too many levels"}
        for arguments, sentence in said.items():
            for option in ("", "--foreground"):
                done = run(f"$KAFKAFS mount {option} {arguments}", place)
                assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
                assert sentence in done.stderr
        assert sorted(path.name for path in place.iterdir() if path.name != "cache") == ["dangling", "loop"]

    def test_of_several_at_once_one_mounts(self, place: Path) -> None:
        race = "for i in 1 2 3 4; do $KAFKAFS mount store mnt > said.$i 2>&1 & done; wait; cat said.*"
        done = run(race, place)
        assert done.stdout.count("try: ls mnt") == 1, done.stdout
        assert mount_at(place / "mnt") is not None
        assert run("$KAFKAFS umount mnt", place).returncode == 0
        assert not (place / "mnt").exists()


# The serving process waits at its beginning until it is released.
HELD_UP = """
mkfifo hold
printf '#!/bin/bash\\nread -r _ < %s/hold\\nexec %s "$@"\\n' "$PWD" "$PYTHON" > python
chmod 755 python
"$PYTHON" -P -c '
import os, sys
from kafkafs.cli import main
sys.executable = os.path.abspath("python")
main(["mount", "store", "mnt"], prog_name="kafkafs")
' > said 2>&1 &
front=$!
until server=$(< /proc/$front/task/$front/children) && [[ $server ]]; do kill -0 $front || exit 1; done
server=${server% }
"""


class TestAFrontEndThatEnds:
    @pytest.mark.parametrize("number", ["TERM", "HUP", "KILL"])
    def test_leaves_no_mount(self, place: Path, number: str) -> None:
        script = (
            HELD_UP
            + f"""
kill -{number} $front
wait $front; echo $?
(echo go > hold) & letting=$!
while kill -0 $server 2> /dev/null; do sleep 0.05; done
kill $letting 2> /dev/null
ls mnt 2> /dev/null
$KAFKAFS mount store other && $KAFKAFS umount other; echo $?
"""
        )
        done = run(script, place, PYTHON=sys.executable)
        code = 128 + signal.Signals[f"SIG{number}"]
        assert done.stdout.splitlines() == [str(code), "other", "try: ls other", "0"], done.stderr
        assert mount_at(place / "mnt") is None

    def test_one_with_its_output_closed_mounts(self, place: Path) -> None:
        for closing in ("> /dev/null 2>&1 & wait $!", ">&- 2>&-", "| true"):
            run(f"$KAFKAFS mount store mnt {closing}", place)
            assert mount_at(place / "mnt") is not None
            assert run("$KAFKAFS umount mnt", place).returncode == 0


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

HELPER = """
mkdir extra
printf '#!/bin/sh\\nexec %s -P -m kafkafs.cli.mount_helper "$@"\\n' "$PYTHON" > extra/mount.kafkafs
chmod 755 extra/mount.kafkafs
sbin=$(readlink -f /sbin)
mount -t overlay -o lowerdir="$PWD/extra:$sbin" none "$sbin" || exit 77
"""


class TestMount8:
    def with_helper(self, script: str, place: Path) -> subprocess.CompletedProcess[str]:
        done = apart(HELPER + script, place, PYTHON=sys.executable)
        if done.returncode == 77:
            pytest.skip(f"no overlay can be mounted to put the helper into /sbin: {done.stderr.strip()}")
        return done

    def test_by_type(self, place: Path) -> None:
        script = """
set -e
mkdir mnt
mount -t kafkafs store mnt -o rw,noatime,nosuid,allow_other,list_limit=5
mkdir mnt/orders
seq 10 >> mnt/orders/0/append
ls mnt/orders/0/offset | wc -l
findmnt -n -o SOURCE,FSTYPE mnt
umount mnt
"""
        done = self.with_helper(script, place)
        assert (done.returncode, done.stderr.replace("kafkafs: ", "")) == (0, done.stderr.replace("kafkafs: ", ""))
        assert done.stdout.split() == ["7", f"{place}/store", "fuse.kafkafs"]
        # umount(8) does not wait for the process, as `kafkafs umount` does.
        read = run("for i in {1..200}; do $KAFKAFS cat store orders/0/values | tail -n 1 && break; done", place)
        assert read.stdout == "10\n"

    def test_by_fstab(self, place: Path) -> None:
        script = """
set -e
mkdir mnt
$KAFKAFS mount store mnt >/dev/null && mkdir mnt/orders && echo x >> mnt/orders/0/append && $KAFKAFS umount mnt
echo "$PWD/store $PWD/mnt kafkafs ro,noauto,nofail,_netdev,x-systemd.automount,isolation=read_committed 0 0" > fstab
mount -T fstab "$PWD/mnt"
cat mnt/orders/0/values
! echo y >> mnt/orders/0/append
grep -E '^(mode|isolation)=' mnt/.kafkafs/options
$KAFKAFS umount mnt
mount -f -T fstab "$PWD/mnt"
! ls mnt/orders
"""
        done = self.with_helper(script, place)
        assert done.returncode == 0, done.stderr
        assert set(done.stdout.splitlines()) == {"x", "mode=read-only", "isolation=read_committed"}
        assert "Read-only file system" in done.stderr

    def test_what_is_wrong_reaches_mount(self, place: Path) -> None:
        done = self.with_helper("mkdir mnt; mount -t kafkafs store mnt -o isolatoin=x", place)
        assert done.returncode != 0
        assert "there is no mount option isolatoin; did you mean isolation?" in done.stderr
        assert "Traceback" not in done.stderr


class TestSystemd:
    def test_the_unit_is_well_formed(self, place: Path) -> None:
        if shutil.which("systemd-analyze") is None:
            pytest.skip("systemd-analyze is missing")
        units = [shutil.copy(each, place) for each in UNIT.parent.glob("kafkafs*@.*")]
        assert len(units) > 1
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *(each.replace("@.", "@orders.") for each in map(str, units))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")

    def test_its_command_tells_when_it_is_ready_and_ends_as_the_unit_ends_it(self, place: Path) -> None:
        unit = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match(r"[A-Z]\w+=", line))
        assert (unit["Type"], unit["KillSignal"]) == ("notify", "SIGTERM")
        given = {"STORE": str(place / "store"), "MOUNTPOINT": str(place / "mnt"), "OPTIONS": ""}
        words = [re.sub(r"^\$\{(\w+)\}$", lambda name: given[name[1]], word) for word in unit["ExecStart"].split()]
        assert words[:2] == ["/usr/bin/env", "kafkafs"]
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listening.bind(str(place / "notify"))
        listening.settimeout(DEADLINE_S)
        environment = {**os.environ, "NOTIFY_SOCKET": str(place / "notify"), "XDG_CACHE_HOME": str(place / "cache")}
        process = subprocess.Popen([*KAFKAFS.split(), *words[2:]], env=environment, stderr=subprocess.DEVNULL, **PIPES)
        try:
            said = ""
            while "READY=1" not in said:
                said += listening.recv(4096).decode() + "\n"
            assert f"STATUS=opening {place}/store" in said
            assert (place / "mnt/.kafkafs/README").exists()
            process.send_signal(signal.Signals[unit["KillSignal"]])
            while "STOPPING=1" not in said:
                said += listening.recv(4096).decode() + "\n"
            process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
            process.wait()
            listening.close()
        assert process.returncode == 0
        assert mount_at(place / "mnt") is None


# The interpreter may lie where only root gets to, so all is imported before rights are given up: difflib for click.
UNPRIVILEGED = """
import difflib, os, pkgutil, sys, encodings, trio, kafkafs, storage
for package in (kafkafs, storage, encodings):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not {"__main__", "spark", "testing", "columns", "mbcs", "oem"} & set(module.name.split(".")):
            __import__(module.name)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.environ["XDG_CACHE_HOME"] = os.environ["HOME"] = os.getcwd() + "/home"
sys.argv = ["kafkafs", *sys.argv[1:]]
kafkafs.cli.main()
"""
NODE = "mknod fuse c 10 229 && chmod 666 fuse && mount --bind fuse /dev/fuse || exit 77\n"


class TestOtherUsers:
    def as_nobody(self, script: str, place: Path, options: str = "") -> subprocess.CompletedProcess[str]:
        (place / "unprivileged.py").write_text(UNPRIVILEGED)
        for name in ("home", "mnt"):
            (place / name).mkdir()
            os.chown(place / name, 65534, 65534)
        os.chown(place, 65534, 65534)
        as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
        mounting = f"""
{sys.executable} unprivileged.py mount --foreground {options} store mnt > said 2> log &
server=$!
while [ ! -s said ] && kill -0 $server 2>/dev/null; do sleep 0.05; done
{script}
"""
        done = apart(NODE + mounting.replace("AS_NOBODY", as_nobody), place)
        if done.returncode == 77:
            pytest.skip(f"no node can be made for everybody: {done.stderr.strip()}")
        return done

    def test_one_mounts_reads_writes_and_unmounts(self, place: Path) -> None:
        script = """
AS_NOBODY bash -c 'mkdir mnt/orders && echo x >> mnt/orders/0/append && cat mnt/orders/0/values && stat -c %u mnt'
ls mnt || echo not even root
AS_NOBODY fusermount3 -u mnt
wait $server; echo ended $?
"""
        done = self.as_nobody(script, place)
        assert done.stdout.splitlines() == ["x", "65534", "not even root", "ended 0"], (place / "log").read_text()
        assert (place / "store/orders-0").stat().st_uid == 65534

    def test_letting_others_in_takes_leave(self, place: Path) -> None:
        if re.search(r"(?m)^\s*user_allow_other", Path("/etc/fuse.conf").read_text()):
            pytest.skip("/etc/fuse.conf lets every user do it")
        done = self.as_nobody("wait $server; echo ended $?", place, "-o allow_other")
        assert done.stdout == "ended 3\n"
        assert "have root add a line `user_allow_other` to /etc/fuse.conf" in (place / "log").read_text()


class TestNoFuse:
    HIDDEN = """
mkdir dev && mount -t tmpfs none dev && cp -a /dev/null /dev/zero /dev/urandom dev/ && mount --move dev /dev || exit 77
"""

    def test_it_says_what_to_do_and_the_rest_works(self, place: Path) -> None:
        assert run("$KAFKAFS topics create store orders", place).returncode == 0
        assert run("echo x | $KAFKAFS append store orders/0/append", place).returncode == 0
        done = apart(f"{self.HIDDEN}$KAFKAFS mount store mnt; echo $?; $KAFKAFS cat store orders/0/values", place)
        if done.returncode == 77:
            pytest.skip(f"/dev/fuse cannot be hidden: {done.stderr.strip()}")
        assert done.stdout == "3\nx\n"
        assert "there is no /dev/fuse: run `modprobe fuse` as root, or give the container the device" in done.stderr
        assert done.stderr.count("\n") == 1
        assert not (place / "mnt").exists()
