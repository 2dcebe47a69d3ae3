"""A reader that follows a log sees each record once, while segments are replaced and their directory is moved."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from mmap import PAGESIZE
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

TAIL = "tail -n +1 -s 0.1 --max-unchanged-stats=1"


class Writer:
    """A writer of a store of two log directories that is mounted meanwhile."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.paths = [directory / "d1", directory / "d2"]
        self.written = 0
        for path in self.paths:
            path.mkdir()
        self.run("topics", "create", self.store, "t", "segment.bytes=2000", *settings)

    @property
    def store(self) -> str:
        return ",".join(map(str, self.paths))

    @property
    def place(self) -> Path:
        (found,) = [path for path in self.paths if (path / "t-0").exists()]
        return found

    @property
    def other(self) -> Path:
        (found,) = set(self.paths) - {self.place}
        return found

    def run(self, *arguments: str, data: str = "") -> None:
        command = [sys.executable, "-P", "-m", "kafkafs", *arguments]
        done = subprocess.run(command, input=data, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def append(self, count: int) -> None:
        """Append numbers; compaction keeps only the last of each remainder by ten."""
        numbers = range(self.written, self.written + count)
        lines = "".join(f"{number % 10}\t{number}\n" for number in numbers)
        self.run("append", self.store, "t/0/append.kv", data=lines)
        self.written += count

    def compact(self) -> None:
        self.run("compact", self.store, "t", "--apply")

    def rename(self) -> None:
        (self.place / "t-0").rename(self.other / "t-0")

    def copy(self) -> None:
        here, there = self.place / "t-0", self.other / "t-0"
        shutil.copytree(here, there)
        shutil.rmtree(here)


def outputs(directory: Path) -> tuple[Path, Path]:
    """Files for what a follower prints, and complains about."""
    paths = directory / "output", directory / "errors"
    for path in paths:
        path.touch()
    return paths


def numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r'"value":"(\d+)"', path.read_text())]


def test_compaction_and_moves_are_not_seen_by_who_follows(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    writer = Writer(tmp_path, "cleanup.policy=compact")
    writer.append(300)
    reader = store_mounts(writer.store, "-o", "ro")
    output, errors = outputs(tmp_path)
    with reader.started(f"exec {TAIL} -f t/0/records.jsonl >{output} 2>{errors}"):
        reader.until(lambda: len(numbers(output)) == 300)
        for change in (writer.compact, writer.rename, writer.compact, writer.copy, writer.rename, writer.compact):
            change()
            writer.append(100)
            reader.until(lambda: len(numbers(output)) >= writer.written)
            listed = reader.run("cat t/0/records.jsonl").stdout
            assert str(writer.written - 1) in re.findall(r'"value":"(\d+)"', listed)
        assert numbers(output) == list(range(writer.written))
    assert errors.read_text() == ""
    assert "Traceback" not in reader.said()


def test_who_follows_a_name_begins_again_where_compaction_replaced_the_file(
    store_mounts: Callable[..., Mounted], tmp_path: Path
) -> None:
    writer = Writer(tmp_path, "cleanup.policy=compact")
    writer.append(300)
    reader = store_mounts(writer.store, "-o", "ro")
    output, errors = outputs(tmp_path)
    number_before = reader.run("stat -c %i t/0/records.jsonl").stdout
    with reader.started(f"exec {TAIL} -F t/0/records.jsonl >{output} 2>{errors}"):
        reader.until(lambda: numbers(output) == list(range(300)))
        writer.compact()
        reader.until(lambda: "has been replaced" in errors.read_text())
        reader.until(lambda: reader.run("stat -c %i t/0/records.jsonl").stdout != number_before)
        writer.append(10)
        now = numbers_of(reader.run("cat t/0/records.jsonl").stdout)
        reader.until(lambda: numbers(output) == [*range(300), *numbers_of(reader.run("cat t/0/records.jsonl").stdout)])
        assert len(now) < 300
    assert "error" not in errors.read_text()


def test_a_reader_that_stopped_finds_what_was_removed_meanwhile(
    store_mounts: Callable[..., Mounted], tmp_path: Path
) -> None:
    writer = Writer(tmp_path)
    writer.append(100)
    reader = store_mounts(writer.store, "-o", "ro")
    output, errors = outputs(tmp_path)
    with ExitStack() as stack:
        tail = stack.enter_context(reader.started(f"exec {TAIL} -f t/0/records.jsonl >{output} 2>{errors}"))
        reader.until(lambda: len(numbers(output)) == 100)
        tail.send_signal(19)
        for _ in range(3):
            writer.append(100)
            reader.until(lambda: f"t/0/offset/{writer.written - 1}" in reader.run("ls t/0/offset/*9 -d").stdout)
        log = writer.place / "t-0"
        kept = max(log.glob("*.log"))
        going = {path.name for path in log.glob("*.log")} - {kept.name}
        reader.until(lambda: going <= held_files(reader))
        for path in log.iterdir():
            if re.match(r"\d{20}\.", path.name) and path.stem < kept.stem:
                path.unlink()
        tail.send_signal(18)
        writer.append(10)
        reader.until(lambda: len(numbers(output)) >= writer.written)
        assert numbers(output) == list(range(writer.written))
    assert errors.read_text() == ""


def held_files(mounted: Mounted) -> set[str]:
    """The logs that the mount has open, as its process sees them."""
    found = subprocess.run(["ls", "-l", f"/proc/{mounted.process.pid}/fd"], capture_output=True, text=True, check=False)
    return set(re.findall(r"\d{20}\.log", found.stdout))


def numbers_of(envelopes: str) -> list[int]:
    return [int(number) for number in re.findall(r'"value":"(\d+)"', envelopes)]


def test_a_hole_costs_the_page_that_it_lies_in(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    """As `kafkafs help semantics` states it: the kernel reads whole pages, and knows no page that ends early."""
    writer = Writer(tmp_path)
    writer.append(3000)
    log, first, later = writer.place / "t-0", tmp_path / "first", tmp_path / "later"
    shutil.copytree(log, first)
    writer.append(1000)
    log.rename(later)
    first.rename(log)
    reader = store_mounts(writer.store, "-o", "ro")
    before = "".join(f"{number}\n" for number in range(3000)).encode()
    with (reader.path / "t/0/values").open("rb", buffering=0) as stream:
        assert os.fstat(stream.fileno()).st_size == len(before)
        reader.process.send_signal(signal.SIGSTOP)
        try:
            for path in later.iterdir():  # no process is started: it would close the stream, and wait for the mount
                shutil.copyfile(path, log / path.name)
            first_kept = remove_all_but_the_last_segment(log)
        finally:
            reader.process.send_signal(signal.SIGCONT)
        rest = "".join(f"{number}\n" for number in range(first_kept, 4000)).encode()
        reader.until(lambda: os.fstat(stream.fileno()).st_size > len(before))
        hole = os.fstat(stream.fileno()).st_size - len(rest) - 1
        assert hole == len(before)
        whole = before + b"?" + rest
        lost = range(hole // PAGESIZE * PAGESIZE, hole // PAGESIZE * PAGESIZE + PAGESIZE)
        for position in range(0, len(whole), 1000):
            if position in lost:
                with pytest.raises(OSError, match="Input/output error"):
                    os.pread(stream.fileno(), 10, position)
            else:
                assert os.pread(stream.fileno(), 10, position) == whole[position : position + 10]
    assert reader.said().count("were removed unread") == 1
    assert numbers_of(reader.run("cat t/0/records.jsonl").stdout)[-1] == 3999


def remove_all_but_the_last_segment(log: Path) -> int:
    """Give the offset that the log begins with then."""
    kept = max(log.glob("*.log"))
    for path in log.iterdir():
        if re.match(r"\d{20}\.", path.name) and path.stem < kept.stem:
            path.unlink()
    return int(kept.stem)


def test_who_follows_a_partition_that_was_away_misses_nothing(
    store_mounts: Callable[..., Mounted], tmp_path: Path
) -> None:
    writer = Writer(tmp_path)
    writer.append(100)
    reader = store_mounts(writer.store, "-o", "ro")
    output, errors = outputs(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    with reader.started(f"exec {TAIL} -f t/0/records.jsonl >{output} 2>{errors}") as tail:
        reader.until(lambda: len(numbers(output)) == 100)
        for times, back in enumerate((writer.paths[1], writer.paths[0]), start=1):
            (writer.place / "t-0").rename(elsewhere)
            reader.until(lambda times=times: reader.said().count("t-0 is gone from") == times)  # type: ignore[misc]
            assert reader.run("cat t/0/values").returncode == 1
            elsewhere.rename(back / "t-0")
            writer.append(50)
            reader.until(lambda: len(numbers(output)) >= writer.written)
        assert numbers(output) == list(range(writer.written))
        assert tail.poll() is None
    assert errors.read_text() == ""
    assert reader.said().count("t-0 is back, in") == 2


def test_a_move_is_no_error_to_who_reads_just_then(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.append(300)
    reader = store_mounts(writer.store, "-o", "ro")
    expected = "".join(f"{number}\n" for number in range(300)).encode()
    names = ("values", "offset/all", "by-time/..now")
    with ExitStack() as stack:
        files = [stack.enter_context((reader.path / "t/0" / name).open("rb", buffering=0)) for name in names]
        for _ in range(20):
            writer.rename()
            for file in files:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                assert os.pread(file.fileno(), len(expected) + 1, 0) == expected
            writer.rename()
            done = reader.run("cat t/0/offset/299 && ls t/0/segments/*.log >/dev/null")
            assert (done.stdout, done.stderr) == ("299", "")
    assert "WARNING" not in reader.said()
