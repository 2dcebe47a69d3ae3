"""Rendered logs beside a plain loop that decodes the same batches on one core, in one run and in turn; wall time.

`kafkafs cat` is timed as a process. Its start-up, the time of the same command for one batch, is taken off. What a
mount counts is timed from the open of a file in a fresh mount until `stat` tells its size.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from mounted_servers import TOPIC, make_store, ours, read_all, wall_seconds
from segments import Shape
from timing import Scoreboard, rate, run_parts

from kafkafs.allocation import keep_freed_memory
from kafkafs.render.envelope import Envelope
from storage.files import Files
from storage.record import BATCH_HEADER_BYTES, Codec, RecordBatch, decompressors, read_batches, run_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from storage.record import Batch

SMALL, LARGE = 16 * 1024, 1024 * 1024
VALUES_BYTES = 120_000_000
ROUNDS = 3
WINDOW_BYTES = 1024 * 1024
COUNTED_BYTES = 1_000_000_000
LARGE_LOG_BYTES = 5_000_000_000
COUNTED_S_MAX: Final = 0.1
DEADLINE_S: Final = 300
END: Final = 2**62


def batches_of(log: Path) -> Callable[[Callable[..., object]], None]:
    """Return a function that calls another for each batch of a log, once its checksum is checked."""

    def each(do: Callable[..., object]) -> None:
        with Files().open_reading(log) as file:
            position, size_bytes = 0, file.size_bytes()
            while position < size_bytes:
                walk = read_batches(file.read_at(position, WINDOW_BYTES), origin=position)
                for batch in walk:
                    batch.check_crc()
                    do(batch)
                position = walk.position

    return each


def values_in_loop(log: Path) -> None:
    known = decompressors()
    batches_of(log)(
        lambda batch: run_lines(batch, batch.position + batch.size_bytes, END, True, decompressors=known)[2]
    )


def envelopes_in_loop(log: Path) -> None:
    envelope = Envelope(TOPIC, 0)
    batches_of(log)(lambda batch: b"".join(map(envelope.line, batch.records())))


def cat(store: Path, path: str) -> float:
    return wall_seconds((sys.executable, "-m", "kafkafs", "cat", store, path))


def medians(contenders: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median wall seconds of each; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            taken[name].append(run())
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def timed(run: Callable[[], object]) -> Callable[[], float]:
    def seconds() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return seconds


def made(folder: Path, shape: Shape, size_bytes: int) -> tuple[Path, Path]:
    """Make a store with so many bytes of log, and return it and the log."""
    store = folder / f"{shape}".replace(", ", "-").replace(" ", "") / "store"
    store.parent.mkdir()
    make_store(store, shape, size_bytes)
    return store, store / f"{TOPIC}-0" / f"{0:020}.log"


def size_of_values(store: Path) -> int:
    command = f"{sys.executable} -m kafkafs cat {store} {TOPIC}/0/values | wc -c"
    return int(subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout)


def bench_values(board: Scoreboard, folder: Path) -> None:
    for codec in Codec:
        for batch_bytes in (SMALL, LARGE):
            shape = Shape(100, batch_bytes, codec=codec)
            store, log = made(folder, shape, VALUES_BYTES // (1 if codec is Codec.NONE else 2))
            size_bytes = size_of_values(store)
            found = medians(
                {
                    "start": lambda store=store: cat(store, f"{TOPIC}/1/values"),  # type: ignore[misc]
                    "loop": timed(lambda log=log: values_in_loop(log)),  # type: ignore[misc]
                    "values": lambda store=store: cat(store, f"{TOPIC}/0/values"),  # type: ignore[misc]
                    "all": lambda store=store: cat(store, f"{TOPIC}/0/offset/all"),  # type: ignore[misc]
                }
            )
            values_s, all_s = (found[name] - found["start"] for name in ("values", "all"))
            figures = f"cat {rate(size_bytes, values_s)}, loop {rate(size_bytes, found['loop'])}"
            board.line(f"cat values / loop: {shape}", figures, found["loop"] / values_s, 0.8)
            figures = f"offset/all {rate(size_bytes, all_s)}"
            board.line(f"  offset/all / values: {shape}", figures, values_s / all_s, 1)


def bench_forms(board: Scoreboard, folder: Path) -> None:
    shape = Shape(100, SMALL, codec=Codec.LZ4)
    store, log = made(folder, shape, VALUES_BYTES // 4)
    found = medians(
        {
            "start": lambda: cat(store, f"{TOPIC}/1/values"),
            "loop": timed(lambda: envelopes_in_loop(log)),
            "records.jsonl": lambda: cat(store, f"{TOPIC}/0/records.jsonl"),
            "offset/all.jsonl": lambda: cat(store, f"{TOPIC}/0/offset/all.jsonl"),
        }
    )
    for name in ("records.jsonl", "offset/all.jsonl"):
        seconds = found[name] - found["start"]
        figures = f"{seconds:.2f} s, loop over Envelope.line {found['loop']:.2f} s"
        board.line(f"cat {name} / loop: {shape}", figures, found["loop"] / seconds, 3)


def codec_in_loop(log: Path) -> None:
    known = decompressors()

    def decompress(batch: Batch) -> None:
        assert isinstance(batch, RecordBatch)
        if batch.codec is not Codec.NONE:
            known[batch.codec](batch.view(BATCH_HEADER_BYTES, batch.size_bytes))

    batches_of(log)(decompress)


def bench_finding(board: Scoreboard, folder: Path) -> None:
    """A key that no record has, and a value, beside the codec and the checksum alone."""
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        shape = Shape(100, SMALL, codec=codec)
        store, log = made(folder, shape, COUNTED_BYTES // (1 if codec is Codec.NONE else 2))
        command = (sys.executable, "-m", "kafkafs", "find", store, TOPIC, "--count")
        found = medians(
            {
                "start": lambda command=command: seconds_without_match((*command, "--from", "2100-01-01")),  # type: ignore[misc]
                "codec": timed(lambda log=log: codec_in_loop(log)),  # type: ignore[misc]
                "key": lambda command=command: seconds_without_match((*command, "--key", "-")),  # type: ignore[misc]
                "value": lambda command=command: seconds_without_match((*command, "--grep", "~~")),  # type: ignore[misc]
            }
        )
        for what in ("key", "value"):
            seconds = found[what] - found["start"]
            figures = f"{seconds:.2f} s, codec and checksum {found['codec']:.2f} s"
            board.line(f"find by {what} / codec: {shape}", figures, found["codec"] / seconds, 0.6)


def seconds_without_match(command: Sequence[str | Path]) -> float:
    """Return what a search takes that finds nothing, which is its exit code."""
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 1
    return time.perf_counter() - start


def seconds_to_size(path: Path) -> float:
    """Seconds from the open of a file until `stat` tells its size."""
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while os.fstat(file.fileno()).st_size == 0:
            if time.perf_counter() - start > DEADLINE_S:
                raise TimeoutError(f"{path} has no size yet")
            time.sleep(0.005)
    return time.perf_counter() - start


def bench_counting(board: Scoreboard, folder: Path) -> None:
    for shape, log_bytes, target_s in (
        (Shape(100, SMALL), COUNTED_BYTES, 0.5),
        (Shape(100, SMALL, codec=Codec.LZ4), COUNTED_BYTES * 52 // 100, 1),
    ):
        store, _ = made(folder, shape, log_bytes)
        with ours(store) as mount:
            (mount.path / TOPIC / "1" / "values").read_bytes()
            values = mount.path / TOPIC / "0" / "values"
            seconds = seconds_to_size(values)
            figures = f"{log_bytes / 1e6:.0f} MB of log, {values.stat().st_size / 1e6:.0f} MB of values"
            board.at_most(f"size known after the first open: {shape}", figures, seconds, target_s, "s")
            first_s, size_bytes = read_all(values)
            again_s = min(read_all(values)[0] for _ in range(ROUNDS))
            figures = f"first {rate(size_bytes, first_s)}"
            board.at_least(f"  second read of it: {shape}", figures, size_bytes / again_s / 1e9, 5, "GB/s")


def bench_tails(board: Scoreboard, folder: Path) -> None:
    store = folder / "store"
    begin = time.time()
    # The times rise as the clock does, so that the middle of the log has one of its own.
    make_store(store, Shape(100, SMALL), LARGE_LOG_BYTES, {"message.timestamp.type": "LogAppendTime"})
    middle_ms = int((begin + time.time()) / 2 * 1000)
    with ours(store) as mount:
        for script, first_s in (
            (f"tail -c 100 {TOPIC}/0/values", 1.5),
            (f"tail -n 1 {TOPIC}/0/records.jsonl", 2),
            (f"head -n 1 {TOPIC}/0/by-time/{middle_ms}..", None),
        ):
            taken = [in_shell(script, mount.path)]
            while taken[-1] > COUNTED_S_MAX and sum(taken) < DEADLINE_S:
                taken.append(in_shell(script, mount.path))
            if first_s is not None:
                board.at_most(f"first {script}", "of 5 GB", taken[0], first_s, "s")
            again = in_shell(script, mount.path)
            figures = f"after {len(taken)} of {sum(taken):.1f} s together"
            board.at_most(f"  once it is counted: {script}", figures, again, COUNTED_S_MAX, "s")


def in_shell(script: str, directory: Path) -> float:
    start = time.perf_counter()
    subprocess.run(["sh", "-c", script], cwd=directory, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


PARTS = {
    "values": bench_values,
    "forms": bench_forms,
    "finding": bench_finding,
    "counting": bench_counting,
    "tails": bench_tails,
}


def main() -> int:
    keep_freed_memory()
    return run_parts(PARTS)


if __name__ == "__main__":
    sys.exit(main())
