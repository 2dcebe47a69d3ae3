"""Walks through a mount of 2,000 and of 20,000 partitions, read-only; wall time, the disk's own files warm.

Every partition has a few records, in files of its own, as on a broker's disk. The steps are those of an operator who
looks around: nothing that one of them makes the mount keep may cost the next. A step is ended after `STEP_SECONDS_MAX`,
and its figure is then that, with a plus. So all of it takes a few minutes where the targets are met, and half an hour
at most.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from mounted_servers import CHECKOUT, ours
from timing import Scoreboard

from storage.clock import Clock
from storage.files import Files
from storage.ids import format_id
from storage.log_dir.checkpoints import OffsetCheckpoint, write_offsets
from storage.log_dir.settings_file import KnownTopic, read_settings_file, write_settings_file
from storage.record import batches_of_rows
from storage.store import Store

if TYPE_CHECKING:
    from mounted_servers import Served

FEW, MANY = 2_000, 20_000
PARTITIONS_IN_TOPIC = 10
RECORDS = 3
MEMORY_MB = 250
STEP_SECONDS_MAX = 300


class Step(NamedTuple):
    """A shell command in the mount, and how many seconds it may take with many partitions."""

    script: str
    seconds: float | None = None


STEPS = (
    Step("ls"),
    Step("ls -l"),
    Step("cat t5/0/offset/1"),
    Step("cat by-time/-1h", 2),
    Step("find -maxdepth 2", 6),
    Step("du -s", 10),
)


def make_store(path: Path, partitions: int) -> None:
    """Topics of a few partitions each, whose files are copies of those of the first one."""
    files, clock = Files(), Clock()
    with Store.create([path], files=files, clock=clock) as store:
        store.topics.create("t0", 1)
        now_ms = clock.now_ms()
        rows = [(now_ms - 1000 * number, b"key", b"value %d" % number, ()) for number in reversed(range(RECORDS))]
        for batch in batches_of_rows(rows, base_offset=None):
            store.log("t0", 0).append_as_leader(batch)
    first = path / "t0-0"
    shared = [file for file in first.iterdir() if file.name != "partition.metadata"]
    directory = files.directory(path)
    settings = read_settings_file(directory)
    topics = dict(settings.topics)
    for number in range(1, partitions):
        topic, partition = divmod(number, PARTITIONS_IN_TOPIC)
        name = f"t{topic}"
        known = topics.setdefault(name, KnownTopic(UUID(int=topic + 1), is_made_here=True))
        place = path / f"{name}-{partition}"
        place.mkdir()
        (place / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_id(known.topic_id)}")
        for file in shared:
            shutil.copyfile(file, place / file.name)
    write_settings_file(directory, replace(settings, topics=MappingProxyType(topics)))
    places = [(f"t{topic}", number) for topic in range(len(topics)) for number in range(PARTITIONS_IN_TOPIC)]
    for checkpoint in (OffsetCheckpoint.RECOVERY_POINT, OffsetCheckpoint.HIGH_WATERMARK):
        write_offsets(directory, checkpoint, dict.fromkeys(places, RECORDS))
    write_offsets(directory, OffsetCheckpoint.LOG_START, dict.fromkeys(places, 0))


def resident_mb(served: Served) -> float:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{served.process.pid}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1000


def seconds_of(script: str, place: Path) -> float:
    """Return what a script takes in the mount; one that takes too long is ended with all that it started."""
    start = time.perf_counter()
    with subprocess.Popen(
        ["sh", "-c", script], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate(timeout=STEP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return STEP_SECONDS_MAX
    if process.returncode:
        raise RuntimeError(f"{script}: {said.decode().strip()}")
    return time.perf_counter() - start


def shown(seconds: float) -> str:
    return f"{seconds:.2f}{'+' if seconds >= STEP_SECONDS_MAX else ''} s"


def walk(path: Path) -> tuple[dict[str, float], float]:
    """Return the seconds of each step, the first being the mount and the last its end, and the memory at the end."""
    subprocess.run(["grep", "-rqs", "no such text", path], check=False)  # the files are warm
    taken: dict[str, float] = {}
    start = time.perf_counter()
    with ours(path, "-o", "ro") as served:
        taken["mount"] = time.perf_counter() - start
        for step in STEPS:
            taken[step.script] = seconds_of(step.script, served.path)
        memory_mb = resident_mb(served)
        start = time.perf_counter()
        command = [sys.executable, "-m", "kafkafs", "umount", served.path]
        subprocess.run(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL, check=True)
        taken["umount"] = time.perf_counter() - start
    return taken, memory_mb


def main() -> int:
    board = Scoreboard()
    targets = {step.script: step.seconds for step in STEPS} | {"mount": None, "umount": 2}
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for partitions in (FEW, MANY):
            store = Path(folder) / str(partitions) / "store"
            store.parent.mkdir()
            make_store(store, partitions)
            found[partitions] = walk(store)
    (few, few_mb), (many, many_mb) = found[FEW], found[MANY]
    print(f"{FEW} and {MANY} partitions of {RECORDS} records")
    for name, seconds in many.items():
        figures = f"{shown(few[name])} of {FEW}, {shown(seconds)} of {MANY}"
        target = targets[name]
        if target is None:
            print(f"{name:<44} {figures}", flush=True)
        else:
            board.at_most(name, figures, seconds, target, "s")
    board.at_most("memory after all of it", f"{few_mb:.0f} MB, {many_mb:.0f} MB", many_mb, MEMORY_MB, "MB")
    for miss in board.missed:
        print(f"target missed: {miss}")
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
