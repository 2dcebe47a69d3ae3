"""The lines in the log about requests that take long, by a clock of the test."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kafkafs.mount.dispatch import Waiting
from kafkafs.mount.long_requests import LINES_MAX, LongRequests

S = 1_000_000_000


class Mount:
    """The requests that wait in a mount of some files, a file by each number."""

    def __init__(self) -> None:
        self.waiting: dict[int, Waiting] = {}
        inode = {number: SimpleNamespace(path=f"/t/0/offset/{number}") for number in range(1000)}
        files = {number: SimpleNamespace(inode=inode[number], reached=lambda: 7) for number in inode}
        self.long: Any = LongRequests(
            SimpleNamespace(  # type: ignore[arg-type]
                requests=SimpleNamespace(waiting=self.waiting), open_files=files, listings={}, inodes=inode
            )
        )

    def begin(self, operation: str, *arguments: object, at_s: float = 0) -> None:
        self.waiting[len(self.waiting)] = Waiting(operation, arguments, round(at_s * S))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return said


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkafs.mount")


def test_each_file_has_a_line_in_four_seconds_however_many_read_it(caplog: pytest.LogCaptureFixture) -> None:
    mount = Mount()
    for number in range(60):
        mount.begin("read", 5, 0, 4096, at_s=number / 20)
    said = []
    for half in range(40):
        mount.long.look(half * S // 2)
        said += lines(caplog)
    assert said == [f"read of /t/0/offset/5 has taken {seconds} s so far, at offset 7" for seconds in (4, 8, 12, 16)]


def test_a_flood_of_files_has_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    mount = Mount()
    for number in range(300):
        mount.begin("read", number, 0, 4096, at_s=number / 100)
    said = []
    for half in range(40):
        mount.long.look(half * S // 2)
        said += lines(caplog)
    assert len([line for line in said if line.startswith("read of")]) <= LINES_MAX * 6
    assert any("other files take long, too" in line for line in said)
    assert len(said) <= (LINES_MAX + 1) * 6


@pytest.mark.parametrize(
    ("operation", "arguments", "subject"),
    [
        ("statfs", (SimpleNamespace(pid=1),), "statfs"),
        ("lookup", (3, b"4.hex", None), "lookup of /t/0/offset/3/4.hex"),
        ("getattr", (3, None), "getattr of /t/0/offset/3"),
        ("getattr", (5000, None), "getattr of a file that is closed"),
        ("read", (5000, 0, 1), "read of a file that is closed"),
        ("readdir", (9, 0, None), "readdir of a file that is closed"),
    ],
)
def test_what_a_line_names(
    caplog: pytest.LogCaptureFixture, operation: str, arguments: tuple[object, ...], subject: str
) -> None:
    mount = Mount()
    mount.begin(operation, *arguments)
    mount.long.look(5 * S)
    assert lines(caplog) == [f"{subject} has taken 5 s so far"]
