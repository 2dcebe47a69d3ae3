"""`kafkafs tail` beside a mount that writes: what GNU's tail prints in the mount, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from mounts import DEADLINE_S
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

TAIL = [sys.executable, "-P", "-m", "kafkafs", "tail"]


@contextmanager
def tailing(output: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Follow during the block, into a file and one for errors beside it."""
    with output.open("wb") as out, output.with_name(f"{output.name}.errors").open("wb") as errors:
        process = subprocess.Popen([*TAIL, *map(str, arguments)], stdout=out, stderr=errors)
        try:
            yield process
        finally:
            process.kill()
            process.wait(DEADLINE_S)


def lines(first: int, last: int) -> bytes:
    return "".join(f"{number}\n" for number in range(first, last + 1)).encode()


def test_it_prints_what_tail_prints_in_a_mount(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    store, ours, judges = tmp_path / "store", tmp_path / "ours", tmp_path / "judges"
    judges.touch()
    writer = store_mounts(store)
    assert writer.run("mkdir t && echo segment.bytes=2000 > t/config && seq 60 > t/0/append").stderr == ""
    with (
        tailing(ours, store, "t*/*/values", "-n", 5) as tail,
        writer.started(f"exec tail -f -n 5 t/0/values > {judges}"),
    ):
        until(lambda: ours.read_bytes() == judges.read_bytes() == lines(56, 60), writer.said)
        for first, last, start_offset in ((61, 300, 250), (301, 310, 305), (311, 600, 600)):
            assert writer.run(f"seq {first} {last} | split -l 7 --filter='cat >> t/0/append'").stderr == ""
            expected = lines(56, last)
            until(lambda expected=expected: ours.read_bytes() == judges.read_bytes() == expected, writer.said)  # type: ignore[misc]
            assert writer.run(f"echo {start_offset} > t/0/log-start-offset").stderr == ""
        assert writer.run("mkdir t/1 && echo added > t/1/append").stderr == ""
        until(lambda: ours.read_bytes() == lines(56, 600) + b"added\n", writer.said)
        tail.send_signal(signal.SIGINT)
        assert tail.wait(DEADLINE_S) == 128 + signal.SIGINT
    assert ours.with_name("ours.errors").read_bytes() == b""


def test_it_ends_when_nothing_reads_it_any_more(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    writer = store_mounts(tmp_path / "store")
    assert writer.run("mkdir t && seq 3 > t/0/append").stderr == ""
    script = '"$@" | head -n 2; echo ${PIPESTATUS[@]}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *TAIL, str(tmp_path / "store"), "t/0/values"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1\n2\n141 0\n", "")
