"""A mount beside file systems of stock pyfuse3 and of C that do nothing else, in one run and in turn; wall time.

Files are counted as a program opens, reads and closes each. Streams are read from a fresh mount, so nothing is known of
them; the disk's own files are warm.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from functools import partial
from operator import truediv
from typing import TYPE_CHECKING

from mounted_servers import (
    TOPIC,
    Served,
    empty,
    empty_in_c,
    make_store,
    ours,
    passthrough,
    read_all,
    wall_seconds,
    written,
)
from segments import Shape
from store_opening import PARTITIONS_COUNT, make_partitions
from timing import ROUNDS, Scoreboard, rate, run_parts

from kafkafs.allocation import keep_freed_memory
from storage.record import BATCH_HEADER_BYTES, Codec, read_batches

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL, LARGE = 16 * 1024, 1024 * 1024
STREAM_BYTES = 300_000_000
COMPRESSED_BYTES = 60_000_000  # which a `stat` counts at once
RECORDS_BYTES = 4_000_000
APPENDED_BYTES = 200_000_000
CHUNK_FILES = 500
LISTED = 1000


def open_each(directory: int, names: range) -> float:
    """Seconds to open, read and close each."""
    start = time.perf_counter()
    for number in names:
        file = os.open(str(number), os.O_RDONLY, dir_fd=directory)
        os.read(file, 65536)
        os.close(file)
    return time.perf_counter() - start


Took = dict[tuple[str, str], list[tuple[float, float]]]
"""By contender and state, for each chunk of files: seconds of wall time and of the server's processor time."""


def times_of_records(folder: Path, processor: int) -> Took:
    """Ask all servers in turn for the same names, first unknown to the kernel and then known.

    They run on that processor, and the reader on the first.
    """
    took: Took = {}
    with ours(folder / "store") as mine, empty(folder) as peer, empty_in_c(folder) as limit:
        served = {"ours": mine, "stock": peer, "C": limit}
        for server in served.values():
            server.run_on(processor)
        paths = {"ours": mine.path / TOPIC / "0" / "offset", "stock": peer.path, "C": limit.path}
        directories = {name: os.open(path, os.O_RDONLY | os.O_DIRECTORY) for name, path in paths.items()}
        for start in range(0, RECORDS_BYTES // 200, CHUNK_FILES):
            for name, directory in directories.items():
                for state in ("cold", "warm"):
                    before = served[name].cpu_seconds()
                    seconds = open_each(directory, range(start, start + CHUNK_FILES))
                    used = served[name].cpu_seconds() - before
                    took.setdefault((name, state), []).append((seconds, used))
        for directory in directories.values():
            os.close(directory)
    return {key: times[1:] for key, times in took.items()}  # the first ones warm up


def bench_records(board: Scoreboard, folder: Path) -> None:
    """Measure servers on the reader's processor, and on another.

    Left to itself, the scheduler puts servers now here and now there, and that weighs more than what they do.
    """
    make_store(folder / "store", Shape(100, SMALL), RECORDS_BYTES)
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, processors[:1])
    for place, processor in zip(("same processor", "another processor"), processors, strict=False):
        took = times_of_records(folder, processor)
        for state, target in (("cold", 1.2), ("warm", 1.3)):
            figures = ", ".join(
                f"{name} {statistics.median(each[0] for each in took[name, state]) / CHUNK_FILES * 1e6:.0f} us"
                f" ({statistics.median(each[1] for each in took[name, state]) / CHUNK_FILES * 1e6:.0f} us of CPU)"
                for name in ("ours", "stock", "C")
            )
            print(f"offset/<n>, {state}, {place}: {figures}")
            for peer, label in (("stock", "empty handlers"), ("C", "a server in C")):
                pairs = zip(took[peer, state], took["ours", state], strict=True)
                ratio = statistics.median(other[0] / mine[0] for other, mine in pairs)
                board.line(f"  / {label}", "", ratio, target if peer == "stock" else 1 / 2.5)
    os.sched_setaffinity(0, processors)


def first_read(served: Callable[[], Served], name: str) -> tuple[float, int]:
    """The median of several, each from a mount of its own."""
    taken = []
    for _ in range(ROUNDS // 2):
        with served() as mount:
            small = mount.path / TOPIC / "1" / "values"
            if small.exists():
                small.read_bytes()  # what a process does once does not count
            taken.append(read_all(mount.path / name))
    return statistics.median(seconds for seconds, _ in taken), taken[0][1]


def made_place(folder: Path, shape: Shape) -> Path:
    place = folder / str(shape).replace(", ", "-").replace(" ", "")  # a comma would end the name of a log dir
    place.mkdir()
    return place


def bench_streams(board: Scoreboard, folder: Path) -> None:
    for shape in (Shape(100, SMALL), Shape(100, LARGE), Shape(1024, LARGE)):
        place = made_place(folder, shape)
        make_store(place / "store", shape, STREAM_BYTES)
        (log,) = (place / "store" / f"{TOPIC}-0").glob("*.log")
        mine, stock = partial(ours, place / "store"), partial(passthrough, place, log)
        plain_s, plain_bytes = first_read(stock, log.name)
        values_s, values_bytes = first_read(mine, f"{TOPIC}/0/values")
        raw_s, raw_bytes = first_read(mine, f"{TOPIC}/0/segments/{log.name}")
        figures = f"values {rate(values_bytes, values_s)}, passthrough {rate(plain_bytes, plain_s)}"
        is_large = shape.batch_bytes == LARGE
        board.at_least(f"first read of values: {shape}", figures, values_bytes / values_s / 1e9, 1, "GB/s")
        ratio = values_bytes / values_s / (plain_bytes / plain_s)
        board.line(f"  values / passthrough: {shape}", "", ratio, 0.5 if is_large else None)
        ratio = raw_bytes / raw_s / (plain_bytes / plain_s)
        board.line(f"  raw segment / passthrough: {shape}", rate(raw_bytes, raw_s), ratio, 0.8)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        for batch_bytes in (SMALL, LARGE):
            bench_compressed(board, folder, Shape(100, batch_bytes, codec=codec))


def bench_compressed(board: Scoreboard, folder: Path, shape: Shape) -> None:
    """The limit is one core that decompresses the batches in memory, and then passes the values through a mount."""
    place = made_place(folder, shape)
    make_store(place / "store", shape, COMPRESSED_BYTES)
    (log,) = (place / "store" / f"{TOPIC}-0").glob("*.log")
    batches = [batch for batch in read_batches(log.read_bytes()) if batch.size_bytes > BATCH_HEADER_BYTES]
    taken = []
    for _ in range(ROUNDS // 2):
        start = time.perf_counter()
        for batch in batches:
            batch.records_data()
        taken.append(time.perf_counter() - start)
    values_s, values_bytes = first_read(partial(ours, place / "store"), f"{TOPIC}/0/values")
    plain = place / "plain.bytes"
    with plain.open("wb") as file:
        file.truncate(values_bytes)
    plain_s, _ = first_read(partial(passthrough, place, plain), plain.name)
    bare_s = statistics.median(taken)
    figures = f"values {rate(values_bytes, values_s)}, codec alone {rate(values_bytes, bare_s)} of values"
    board.line(f"first read of values: {shape}", figures, (bare_s + plain_s) / values_s, 1)


def bench_appends(board: Scoreboard, folder: Path) -> None:
    lines = folder / "lines"
    line = b"x" * 99 + b"\n"
    lines.write_bytes(line * (APPENDED_BYTES // len(line)))
    make_store(folder / "store", Shape(100, SMALL), 1)
    with ours(folder / "store") as mount, written(folder) as peer:
        places = {"ours": mount.path / TOPIC / "1" / "append", "stock": peer.path / "file"}
        for label, command in (
            ("cat >> append", f"cat {lines} >>"),
            ("dd bs=16k of=append", f"dd if={lines} bs=16k conv=notrunc status=none of="),
            ("dd bs=1M of=append", f"dd if={lines} bs=1M conv=notrunc status=none of="),
        ):
            taken: dict[str, list[float]] = {name: [] for name in places}
            for _ in range(ROUNDS):
                for name, place in places.items():
                    taken[name].append(wall_seconds(["sh", "-c", f"{command}{place}"]))
            ratio = statistics.median(map(truediv, taken["stock"], taken["ours"]))
            rates = [f"{name} {rate(APPENDED_BYTES, statistics.median(taken[name]))}" for name in places]
            figures = f"{', '.join(rates)}, lines of 100 B"
            board.line(f"{label} / handler that writes a file", figures, ratio, 0.6)
            if label.startswith("cat"):
                amount = APPENDED_BYTES / statistics.median(taken["ours"]) / 1e6
                board.at_least("cat >> append, lines of 100 B", "", amount, 500, "MB/s")


def bench_listings(board: Scoreboard, folder: Path) -> None:
    make_store(folder / "store", Shape(100, SMALL), RECORDS_BYTES)
    taken = []
    for _ in range(ROUNDS):
        with ours(folder / "store", "-o", f"list_limit={LISTED}") as mount:
            directory = mount.path / TOPIC / "0" / "offset"
            taken.append((wall_seconds(["ls", "-l", directory]), wall_seconds(["ls", "-l", directory])))
    first, again = (statistics.median(each) for each in zip(*taken, strict=True))
    board.at_most(f"ls -l of {LISTED} records", f"again {again * 1e3:.0f} ms", first * 1e3, 30, "ms")


def bench_opening(board: Scoreboard, folder: Path) -> None:
    make_partitions(folder / "store")
    taken = []
    for _ in range(ROUNDS // 2):
        start = time.perf_counter()
        with ours(folder / "store"):
            taken.append(time.perf_counter() - start)
    label = f"mount {PARTITIONS_COUNT} partitions"
    board.at_most(label, "from the command to the answer", statistics.median(taken), 1, "s")


def bench_grep(board: Scoreboard, folder: Path) -> None:
    make_store(folder / "store", Shape(100, LARGE), STREAM_BYTES)
    command = f"{sys.executable} -m kafkafs cat {folder}/store {TOPIC}/0/values | grep -c '0123ab'"
    mounted, piped = [], []
    for _ in range(ROUNDS // 2):
        with ours(folder / "store") as mount:
            mounted.append(wall_seconds(["sh", "-c", f"grep -c '0123ab' {mount.path}/{TOPIC}/0/values || true"]))
        piped.append(wall_seconds(["sh", "-c", f"({command}) || true"]))
    ratio = statistics.median(mounted) / statistics.median(piped)
    figures = f"grep {statistics.median(mounted):.2f} s, kafkafs cat | grep {statistics.median(piped):.2f} s"
    board.at_most("grep on values / cat | grep", figures, ratio, 1.3, "x")


PARTS = {
    "records": bench_records,
    "streams": bench_streams,
    "appends": bench_appends,
    "listings": bench_listings,
    "opening": bench_opening,
    "grep": bench_grep,
}


def main() -> int:
    keep_freed_memory()  # as a mount does, so that the bare codec is no slower here
    return run_parts(PARTS)


if __name__ == "__main__":
    sys.exit(main())
