"""What is written through a mount reaches the nodes in its order, and refusals reach who writes."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from mounts import Mounted

REFUSED = (errno.EINVAL, errno.EMSGSIZE, errno.EROFS, errno.ENOSPC, errno.EPERM, errno.ENOTSUP, errno.EIO, errno.EIO)
REFUSED += (errno.EDQUOT, errno.EIO)


@pytest.mark.parametrize(
    "script",
    [
        "echo four >> orders/0/append",
        "echo four > orders/0/append",
        "printf four >> orders/0/append",
        "printf 'four\\n' | cat >> orders/0/append",
        "printf 'four\\n' | tee -a orders/0/append > /dev/null",
        "printf 'four\\n' | tee orders/0/append > /dev/null",
        "printf 'four\\n' | dd of=orders/0/append status=none",
        "printf 'four\\n' | dd of=orders/0/append status=none conv=fsync,notrunc",
        "printf 'four\\n' > $OUT; cp $OUT orders/0/append",
        'python3 -c \'open("orders/0/append", "a").write("four\\n")\'',
        'python3 -c \'import os; f = os.open("orders/0/append", 1); os.write(f, b"fo"); os.write(f, b"ur\\n")\'',
        "printf four > orders/0/append & wait",
    ],
)
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_tools_append(mounted: Mounted, script: str, shell: str) -> None:
    done = mounted.run(f"OUT=$(mktemp); {script}", shell=shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert mounted.run("cat orders/0/values").stdout == "one\ntwo\nthree\nfour\n"


def test_receipts_are_read_where_was_written(mounted: Mounted) -> None:
    done = mounted.run("exec 3<>orders/0/append; seq 2 | cat >&3; cat <&3; echo c >&3; cat <&3; cat <&3")
    assert done.stdout == "3..4\n5..5\n"


def test_writers_of_one_path_take_turns_and_hold_up_nothing_else(mounted: Mounted) -> None:
    # One write so long that it always goes to a thread.
    order = "printf 'wait {} %0200000d\\n' 0 | dd of=gates/0/append bs=1M iflag=fullblock status=none; echo done"
    with mounted.started(order.format("a")) as first:
        mounted.until(lambda: mounted.run("cat gates/0/producers").stdout == "waiting=1\n")
        with mounted.started("echo open b >> gates/0/append; echo done") as second:
            assert mounted.run("stat gates/0/append; ls gates/0; cat gates/0/values").returncode == 0
            assert mounted.run("echo open a >> gates/1/append").returncode == 0
            for process in (first, second):
                assert process.stdout is not None
                assert process.stdout.readline() == "done\n"
    assert [line[:6] for line in mounted.run("cat gates/0/values").stdout.splitlines()] == ["wait a", "open b"]


def test_all_descriptors_of_a_written_path_have_one_inode(mounted: Mounted) -> None:
    code = """
import fcntl, os, subprocess
held = os.open("{0}", os.O_RDWR)
fcntl.flock(held, fcntl.LOCK_EX)
subprocess.run(["stat", "{0}"], stdout=subprocess.DEVNULL, check=True)
print(subprocess.run(["flock", "-n", "-E", "9", "{0}", "true"]).returncode)
os.close(held)
print(subprocess.run(["flock", "-n", "-E", "9", "{0}", "true"]).returncode)
"""
    for path in ("orders/0/append", "orders/0/log-start-offset"):
        assert mounted.run(f"python3 -c '{code.format(path)}'").stdout == "9\n0\n"


def test_many_writers_keep_each_its_order(mounted: Mounted) -> None:
    mounted.run(
        "for w in 1 2 3 4; do (for i in $(seq 200); do echo $w:$i; done | while read -r l; do echo $l; done"
        " >> orders/2/append) & done; wait",
    )
    lines = (mounted.path / "orders/2/values").read_text().splitlines()
    assert len(lines) == 800
    for writer in "1234":
        assert [line for line in lines if line.startswith(writer)] == [f"{writer}:{i}" for i in range(1, 201)]


@pytest.mark.parametrize("size", [1, 4096, 65536, 65537, 1_000_000, 3_000_000])
def test_a_write_of_any_size_is_whole(mounted: Mounted, size: int) -> None:
    line = os.urandom(size).replace(b"\n", b".")
    with (mounted.path / "orders/2/append").open("wb", buffering=0) as file:
        for _ in range(2):
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[file.write(rest) :]
    assert (mounted.path / "orders/2/values").read_bytes() == (line + b"\n") * 2


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_refusal_reaches_every_writer(mounted: Mounted, number: int) -> None:
    code = REFUSED[number]
    target = f"refusing/{number}/append"
    for shell in ("bash", "dash"):
        for script in (
            f"echo x >> {target}",
            f"printf 'x\\n' >> {target}",
            f"echo x | cat >> {target}",
            f"echo x | tee -a {target} >/dev/null",
            f"echo x | dd of={target} status=none",
            f"echo x > $OUT; cp $OUT {target}",
        ):
            done = mounted.run(f"OUT=$(mktemp); {script}", shell=shell)
            assert done.returncode != 0, script
            assert os.strerror(code) in done.stderr or "I/O error" in done.stderr, (script, done.stderr)
    with pytest.raises(OSError, match=r".") as refused:
        os.write(os.open(mounted.path / target, os.O_WRONLY), b"x\n")
    assert refused.value.errno == code
    assert mounted.run(f"cat {target.replace('append', 'offset/0')}").stdout == "x"
    mounted.until(lambda: "write" in mounted.said())


def test_an_unexpected_error_is_an_error_number_and_a_traceback_in_the_log(mounted: Mounted) -> None:
    number = len(REFUSED) - 1
    assert mounted.run(f"echo x >> refusing/{number}/append").returncode == 1
    assert mounted.run(f"cat refusing/{number}/values").returncode == 1
    assert "ZeroDivisionError: nobody foresaw this" in mounted.run("cat .kafkafs/log").stdout
    assert mounted.run("cat orders/0/offset/0").stdout == "one"


@pytest.mark.parametrize(
    "script",
    [
        "touch orders/new",
        "echo x > orders/0/new",
        "mv orders/0/append orders/0/other",
        "ln orders/0/values orders/0/other",
        "ln -s values orders/0/other",
        "rm -f orders/0/offset/1",
        "rm -rf orders",
        "truncate -s 5 orders/0/append",
        "truncate -s 5 orders/0/values",
        "chmod 600 orders/0/values",
        "chown 12 orders/0/values",
        "touch -d yesterday orders/0/values",
        "mkdir orders/0/offset/12",
        "rmdir orders/0",
        "mkfifo orders/0/fifo",
        "echo x > orders/0/values",
        'python3 -c \'import os; os.setxattr("orders/0/values", "user.a", b"x")\'',
    ],
)
def test_everything_else_is_forbidden_and_said(mounted: Mounted, script: str) -> None:
    done = mounted.run(script)
    assert done.returncode != 0
    assert "Operation not permitted" in done.stderr
    assert "(EPERM)" in mounted.said()


def test_directories_are_made_where_the_tree_makes_them(mounted: Mounted) -> None:
    assert mounted.run("mkdir fresh && echo a >> fresh/0/append && cat fresh/0/values").stdout == "a\n"
    assert "Invalid argument" in mounted.run("mkdir bad").stderr
    assert mounted.run("truncate -s 0 fresh/0/append").returncode == 0


@pytest.mark.parametrize(
    "script", ["echo x >> orders/0/append", "mkdir fresh", "rm orders/0/offset/1", "chmod 600 orders/0/values"]
)
def test_a_read_only_mount_says_so(mounting: Callable[..., Mounted], script: str) -> None:
    mounted = mounting("ro")
    assert "Read-only file system" in mounted.run(script).stderr
    assert mounted.run("cat orders/0/offset/1").stdout == "two"


@pytest.mark.parametrize("script", ["sync orders/0/append", "sync orders/0/values", "sync orders/0/offset/1"])
def test_any_descriptor_brings_the_log_to_disk(mounted: Mounted, script: str) -> None:
    assert mounted.run(script).returncode == 0
    assert "syncs=1\n" in (mounted.path / "orders/0/info").read_text()


def test_writes_are_durable_where_that_was_asked_for(mounting: Callable[..., Mounted]) -> None:
    mounted = mounting()
    descriptor = os.open(mounted.path / "orders/0/append", os.O_WRONLY | os.O_DSYNC)
    os.write(descriptor, b"a\n")
    os.write(descriptor, b"b\n")
    assert "syncs=2\n" in (mounted.path / "orders/0/info").read_text()
    os.close(descriptor)
    always = mounting("durability=fsync", at="always")
    always.run("echo a >> orders/0/append")
    assert "syncs=1\n" in (always.path / "orders/0/info").read_text()
