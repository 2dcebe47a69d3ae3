"""Tools that follow a growing file see each line once, through rolls and deletions at the log's start."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from mounts import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

# How each is called, and the first line that it prints of 60.
FOLLOWERS = {
    "tail -f -n +1 {}": 1,
    "tail -F -n +1 {}": 1,
    "tail -F -n +1 -s 0.1 --max-unchanged-stats=1 {}": 1,
    "tail -f -n 3 {}": 58,
    "tail -f -c +1 -s 0.1 {}": 1,
    "tail --follow=name --retry -n +51 -s 0.1 --max-unchanged-stats=2 {}": 51,
    "tail -n 0 -f {}": 61,
}
OPENED = re.compile(r'kafkafs_request_duration_seconds_count\{operation="open"\} (\d+)')


@pytest.fixture
def writer(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    mounted = store_mounts(tmp_path / "store")
    assert mounted.run("mkdir t && echo segment.bytes=2000 > t/config").stderr == ""
    return mounted


def write(mounted: Mounted, first: int, last: int) -> None:
    """Append numbers, some lines a write."""
    assert mounted.run(f"seq {first} {last} | split -l 7 --filter='cat >> t/0/append'").stderr == ""


def lines(first: int, last: int) -> str:
    return "".join(f"{number}\n" for number in range(first, last + 1))


def opened(mounted: Mounted) -> int:
    found = OPENED.search(mounted.run("cat .kafkafs/metrics").stdout)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("is_followed", [False, True], ids=["writer", "other"])
@pytest.mark.parametrize("view", ["values", "records.jsonl"])
def test_each_line_is_seen_once(
    writer: Mounted, store_mounts: Callable[..., Mounted], tmp_path: Path, view: str, *, is_followed: bool
) -> None:
    reader = store_mounts(tmp_path / "store", "-o", "ro", at="reader") if is_followed else writer
    write(writer, 1, 60)
    reader.until(lambda: reader.run("wc -l < t/0/values").stdout == "60\n")
    outputs = [tmp_path / f"output{number}" for number in range(len(FOLLOWERS))]
    starts = list(FOLLOWERS.values())

    def have(last: int) -> bool:
        return all(seen(path, view) == lines(start, last) for path, start in zip(outputs, starts, strict=True))

    with ExitStack() as stack:
        for command, output in zip(FOLLOWERS, outputs, strict=True):
            line = command.format(f"t/0/{view}")
            stack.enter_context(reader.started(f"exec {line} >{output} 2>{output}.errors"))
        reader.until(lambda: have(60))
        for first, last, start_offset in ((61, 200, 150), (201, 210, 205), (211, 400, 400), (401, 420, 401)):
            write(writer, first, last)
            reader.until(lambda last=last: have(last))  # type: ignore[misc]
            before = opened(reader)
            assert writer.run(f"echo {start_offset} > t/0/log-start-offset").stderr == ""
            rest = lines(start_offset + 1, last)
            reader.until(lambda rest=rest: shown(reader, view) == rest)  # type: ignore[misc]
            reader.until(lambda before=before: opened(reader) >= before + 10)  # type: ignore[misc]
        write(writer, 421, 430)
        reader.until(lambda: have(430))
    for output in outputs:
        assert output.with_name(f"{output.name}.errors").read_text() == ""
    assert "Traceback" not in reader.said() + writer.said()


def shown(mounted: Mounted, view: str) -> str:
    found = mounted.run(f"cat t/0/{view}").stdout
    return found if view == "values" else values_in(found)


def seen(path: Path, view: str) -> str:
    found = path.read_text() if path.exists() else ""  # until the shell has made it
    return found if view == "values" else values_in(found)


def values_in(envelopes: str) -> str:
    return "".join(f"{value}\n" for value in re.findall(r'"value":"(\d+)"', envelopes))


def test_less_follows(writer: Mounted) -> None:
    write(writer, 1, 5)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(writer.path)
        os.execvpe("less", ["less", "+F", "t/0/values"], {**os.environ, "TERM": "dumb", "LESS": "-d"})
    try:
        screen = b""
        for first, last in ((6, 9), (10, 400), (401, 402)):
            write(writer, first, last)
            screen = read_until(writer, terminal, screen, b"\n%d\r" % last)
        assert screen.count(b"\n402\r") == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def read_until(mounted: Mounted, terminal: int, screen: bytes, wanted: bytes) -> bytes:
    end = time.monotonic() + DEADLINE_S
    while wanted not in screen:
        assert time.monotonic() < end, (screen[-500:], mounted.said())
        if select.select([terminal], [], [], 0.1)[0]:
            screen += os.read(terminal, 65536)
    return screen


def test_what_is_copied_while_it_grows_is_whole_lines(writer: Mounted, tmp_path: Path) -> None:
    """A copy ends where the file ended at some time, and continuing it gives the rest."""
    with writer.started(
        "for i in {1..300}; do echo line-$i; done | while read -r l; do echo $l >> t/0/append; done"
    ) as busy:
        copies = 0
        while busy.poll() is None:
            assert writer.run(f"cp t/0/values {tmp_path}/copy").stderr == ""
            copied = (tmp_path / "copy").read_text()
            assert copied == "".join(f"line-{number}\n" for number in range(1, copied.count("\n") + 1))
            copies += 1
    assert copies > 1
    done = writer.run(
        f"rsync --append t/0/values {tmp_path}/copy && cmp t/0/values {tmp_path}/copy && wc -l < {tmp_path}/copy"
    )
    assert (done.stdout, done.stderr) == ("300\n", "")


def test_retried_reads_of_what_was_removed_are_errors(writer: Mounted) -> None:
    write(writer, 1, 400)
    with writer.started(
        "exec 3< t/0/values; read -r l <&3; echo $l; read -r go; cat <&3 >/dev/null; echo $?"
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdin is not None
        assert reader.stdout.readline() == "1\n"
        assert writer.run("echo 390 > t/0/log-start-offset; cat t/0/values").stdout == lines(391, 400)
        subprocess.run(["sync"], check=True)
        reader.stdin.write("go\n")
        reader.stdin.flush()
        assert reader.stdout.readline() in {"0\n", "1\n"}


def test_tail_of_a_long_log_waits_for_its_size_and_reads_its_end_alone(
    tmp_path: Path, store_mounts: Callable[..., Mounted]
) -> None:
    store = tmp_path / "store"
    first = store_mounts(store, at="first")
    (first.path / "long").mkdir()
    lines = b"".join(b"%099d\n" % number for number in range(10_000))
    with (first.path / "long" / "0" / "append").open("ab", buffering=0) as file:
        for _ in range(80):  # more than is counted for a `stat`
            file.write(lines)
    first.end()
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # of sizes
    mounted = store_mounts(store)
    for command in ("tail -c 100", "tail -n 1"):
        assert mounted.run(f"{command} long/0/values").stdout == f"{9_999:099d}\n"
    metrics = (mounted.path / ".kafkafs" / "metrics").read_text()
    found = re.search(r"(?m)^kafkafs_read_bytes_total (\d+)$", metrics)
    assert found is not None
    assert int(found[1]) < len(lines)
