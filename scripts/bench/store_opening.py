"""A store of many partitions, and what opening all of them takes a process of its own.

Run by itself with a directory, it opens the store there, looks at each log, and prints what each of the two took.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

from storage.clock import Clock
from storage.files import Files
from storage.ids import format_id
from storage.store import LogOpener, Mode, Store

PARTITIONS_COUNT = 10_000
SEGMENTS_COUNT = 3
TOPICS_COUNT = 100


def make_partitions(store: Path) -> None:
    """Directories with the files that a broker has in them; opening reads none of their contents."""
    store.mkdir()
    (store / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\n")
    names = [
        f"{number * 1_000_000:020d}{suffix}"
        for number in range(SEGMENTS_COUNT)
        for suffix in (".log", ".index", ".timeindex")
    ]
    names += ["leader-epoch-checkpoint", f"{2_000_000:020d}.snapshot"]
    for number in range(PARTITIONS_COUNT):
        directory = store / f"topic{number % TOPICS_COUNT}-{number // TOPICS_COUNT}"
        directory.mkdir()
        topic_id = format_id(UUID(int=number % TOPICS_COUNT + 1))
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
        for name in names:
            os.close(os.open(directory / name, os.O_CREAT | os.O_WRONLY))


def measure_opening(store: Path) -> tuple[float, ...]:
    """What a new process takes to open the store, and then to look at each log once: CPU seconds, and peak bytes."""
    command = [sys.executable, __file__, str(store)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tuple(float(figure) for figure in printed.split())


def peak_bytes() -> int:
    """The largest resident size so far; what `getrusage` says begins with the parent's."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


def main() -> int:
    start = time.process_time()
    with Store.open([sys.argv[1]], mode=Mode.READ_ONLY, files=Files(), clock=Clock(), open_log=LogOpener()) as store:
        logs = [store.log(topic, partition) for topic, partition in store.topics.inventory.partitions()]
        print(time.process_time() - start, peak_bytes())
        start = time.process_time()
        for log in logs:
            log.view
        print(time.process_time() - start, peak_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
