"""Compaction of a large log: its speed on one core, its memory, and the real cleaner on a copy of the same log.

Keys of 16 bytes of which every tenth is another, values of 100 bytes, batches as producers send them. Ours runs in a
process of its own, whose CPU time is taken; the real cleaner says itself how long it took.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import Scoreboard

from storage.cleanup import Cleaner, CleanerLimits, plan_compaction
from storage.clock import Clock
from storage.config import StoreConfig, TopicConfig
from storage.files import Files
from storage.log import Log
from storage.log.opening import open_sound_log
from storage.record import batches_of_rows
from storage.throttle import Throttle

TOPIC = "compacted"
LOG_BYTES = 1_000_000_000
RECORD_BYTES = 126  # of which the log has one a record, headers of batches included
BATCH_BYTES = 16 * 1024
ROWS_COUNT = 100_000  # made at a time
UNIQUE_SHARE = 0.1
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(128 * 1024 * 1024), "min.cleanable.dirty.ratio": "0.01"}
CPU_BYTES_PER_SECOND_MIN = 150
EXTRA_BYTES_MAX = 64 * 1024 * 1024
KAFKA = Path(__file__).parents[1] / "kafka"
KAFKA_UNAVAILABLE = 3
REAL_CLEANER_S_MAX = 300
MADE_MS = 1_700_000_000_000


def open_log(directory: Path) -> Log:
    files, clock, rng = Files(), Clock(), random.Random(1)
    config = TopicConfig.resolve(SETTINGS)
    parts = open_sound_log(clock, files.directory(directory), config, rng=rng, producer_expiration_ms=86_400_000)
    return Log(clock, files.directory(directory), config, parts, rng=rng)


def make_log(directory: Path, size_bytes: int) -> None:
    directory.mkdir()
    log = open_log(directory)
    rng = random.Random(1)
    count = size_bytes // RECORD_BYTES
    text = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=100_000)).encode()
    for first in range(0, count, ROWS_COUNT):
        rows = []
        for _ in range(min(ROWS_COUNT, count - first)):
            begin = rng.randrange(len(text) - 100)
            key = b"k%015d" % rng.randrange(int(count * UNIQUE_SHARE))
            rows.append((MADE_MS, key, text[begin : begin + 100], ()))
        for batch in batches_of_rows(rows, base_offset=None, max_bytes=BATCH_BYTES):
            log.append_as_leader(batch, leader_epoch=0)
    log.roll()
    log.close()


def log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compact(directory: Path) -> dict[str, float]:
    """What a run over the log takes, in this process."""
    clock, store = Clock(), StoreConfig.resolve({})
    kept, log = Files().directory(directory), open_log(directory)
    cleaner = Cleaner(clock, CleanerLimits.of(store), Throttle(clock, float("inf"), time.sleep))
    view = log.view
    plan = plan_compaction(
        TOPIC, view, log.config, checkpoint=None, high_watermark=view.end_offset, now_ms=clock.now_ms()
    )
    before_bytes, before_s = peak_bytes(), time.process_time()

    def remove(names: list[str]) -> None:
        for name in names:
            kept.remove(name)

    report = cleaner.compact(log, plan, remove)
    took = {
        "cpu_s": time.process_time() - before_s,
        "wall_s": report.duration_s,
        "extra_bytes": peak_bytes() - before_bytes - CleanerLimits.of(store).map_bytes,
        "kept": report.records.kept,
        "keys": report.map_keys,
        "after_bytes": report.after_bytes,
    }
    log.close()
    return took


def kafka(*arguments: object) -> str:
    answer = subprocess.run(
        [sys.executable, KAFKA, *map(str, arguments)], capture_output=True, encoding="utf-8", check=False
    )
    if answer.returncode:
        raise RuntimeError(answer.stderr.strip()) from (
            FileNotFoundError() if answer.returncode == KAFKA_UNAVAILABLE else None
        )
    return answer.stdout


def real_cleaner_seconds(folder: Path, source: Path) -> float:
    """How long a real broker's cleaner takes for the log, by what it says."""
    broker = folder / "broker"
    settings = ["log.cleaner.enable=false"]
    started = kafka("start", broker, *settings)
    bootstrap = re.search(r"bootstrap=(\S+)", started)
    assert bootstrap is not None
    options = [part for name, value in SETTINGS.items() for part in ("--config", f"{name}={value}")]
    create = ("--create", "--topic", TOPIC, "--partitions", "1", "--replication-factor", "1")
    kafka("tool", "TopicCommand", "--bootstrap-server", bootstrap[1], *create, *options)
    kafka("stop", broker)
    directory = broker / "logs" / f"{TOPIC}-0"
    for path in directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, directory)
    said_before = (broker / "broker.log").stat().st_size
    kafka("start", broker, "log.cleaner.enable=true", "log.cleaner.backoff.ms=200")
    try:
        deadline = time.monotonic() + REAL_CLEANER_S_MAX
        while time.monotonic() < deadline:
            said = (broker / "broker.log").read_bytes()[said_before:].decode(errors="replace")
            found = re.search(rf"cleaned log {TOPIC}-0 .*?processed in ([\d.,]+) seconds", said, re.DOTALL)
            if found is not None:
                return float(found[1].replace(",", ""))
            time.sleep(0.2)
        raise RuntimeError(f"the real cleaner was not done after {REAL_CLEANER_S_MAX} s")
    finally:
        kafka("stop", broker)


def bench(board: Scoreboard, folder: Path, size_bytes: int) -> None:
    source, ours = folder / "source", folder / "ours"
    make_log(source, size_bytes)
    made_bytes = log_bytes(source)
    shutil.copytree(source, ours)
    command = [sys.executable, __file__, "--compact", ours]
    took = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    megabytes = made_bytes / 1e6
    what = f"{megabytes:.0f} MB, {took['keys'] / 1e3:.0f}k keys, {took['after_bytes'] / 1e6:.0f} MB left"
    assert took["kept"] == took["keys"]
    board.at_least("compact: CPU time", what, megabytes / took["cpu_s"], CPU_BYTES_PER_SECOND_MIN, "MB/s")
    board.at_most("compact: memory beside the map", "", took["extra_bytes"] / 1e6, EXTRA_BYTES_MAX / 1e6, "MB")
    try:
        theirs_s = real_cleaner_seconds(folder, source)
    except RuntimeError as error:
        print(f"not compared with a real cleaner: {error}")
        return
    figures = f"ours {megabytes / took['wall_s']:.0f} MB/s, theirs {megabytes / theirs_s:.0f} MB/s by the clock"
    board.line("real cleaner / compact", figures, theirs_s / took["wall_s"], None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bytes", type=int, default=LOG_BYTES, help="how large the log is (%(default)s)")
    parser.add_argument("--compact", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compact is not None:
        print(json.dumps(compact(options.compact)))
        return 0
    board = Scoreboard()
    with tempfile.TemporaryDirectory(prefix="kafkafs-bench-") as folder:
        bench(board, Path(folder), options.bytes)
    for missed in board.missed:
        print(f"missed: {missed}", file=sys.stderr)
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
