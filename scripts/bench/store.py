"""Logs on real files beside plain `write()`, the bare codec and a bare checksum of the same bytes, in one run.

Appending and scanning are compared by CPU time, as the disk is not what is measured: nothing is synced while the time
is taken, and what was written is dropped again before the system brings it to disk.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
from bisect import bisect_right
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from segments import Row, Shape, rows
from store_opening import PARTITIONS_COUNT, SEGMENTS_COUNT, make_partitions, measure_opening
from timing import ROUNDS, Scoreboard, medians_seconds

from storage.clock import Clock
from storage.config import TopicConfig
from storage.files import Files
from storage.log import Log
from storage.log.opening import open_sound_log
from storage.log.recover.recovery import recover_log
from storage.record import batches_of_rows, read_batches
from storage.record.kernel.crc32c import crc32c
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from storage.files import ReadableFile
    from storage.record import Batch, EncodedBatch

    Found: TypeAlias = Iterator[tuple[int, Batch]]

SINGLE, SMALL, LARGE = 200, 16 * 1024, 1024 * 1024  # sizes of batches; the first has room for one record
APPENDED_BYTES = 48_000_000
RECOVERED_BYTES = 190_000_000  # so much that what recovery does once does not count
SEGMENT_BYTES = 16 * 1024 * 1024
SINGLES_COUNT = 10_000
LOOKUPS_COUNT = 2_000
WINDOW_BYTES = 1024 * 1024
EXPIRATION_MS = 86_400_000
CONFIG = TopicConfig.resolve({})


def open_log(directory: Path, **settings: str) -> Log:
    files, clock, rng = Files(), Clock(), random.Random(1)
    directory.mkdir()
    config = TopicConfig.resolve({key.replace("_", "."): text for key, text in settings.items()})
    parts = open_sound_log(clock, files.directory(directory), config, rng=rng, producer_expiration_ms=EXPIRATION_MS)
    return Log(clock, files.directory(directory), config, parts, rng=rng)


def sent_batches(made: Sequence[Row], batch_bytes: int) -> Iterable[EncodedBatch]:
    return batches_of_rows(made, base_offset=None, max_bytes=batch_bytes)


class Appends:
    """A log and a plain file, both emptied before each of their turns."""

    def __init__(self, folder: Path) -> None:
        self.log = open_log(folder / "appends-0")
        self.file = (folder / "plain").open("wb", buffering=0)

    def empty(self) -> None:
        self.log.truncate_to(0)
        self.file.seek(0)
        self.file.truncate()

    def append(self, batches: Iterable[bytes | EncodedBatch]) -> None:
        for batch in batches:
            self.log.append_as_leader(batch)

    def append_rows(self, made: Sequence[Row]) -> None:
        self.append(sent_batches(made, LARGE))

    def append_singles(self, made: Sequence[Row]) -> None:
        for row in made:
            self.append(batches_of_rows((row,)))

    def write(self, batches: Iterable[bytes]) -> None:
        for batch in batches:
            self.file.write(batch)

    def close(self) -> None:
        self.log.close()
        self.file.close()


def megabytes(size_bytes: int, seconds: float) -> str:
    return f"{size_bytes / seconds / 1e6:.0f} MB/s"


def bench_appends(board: Scoreboard, folder: Path) -> None:
    appends = Appends(folder)
    for value_bytes in (1024, 100):
        made = rows(value_bytes, 0, APPENDED_BYTES)
        batches = [batch.data for batch in sent_batches(made, LARGE)]
        size_bytes = sum(map(len, batches))
        took = medians_seconds(
            {
                "ready": partial(appends.append, batches),
                "rows": partial(appends.append_rows, made),
                "write()": partial(appends.write, batches),
            },
            before=appends.empty,
        )
        figures = ", ".join(f"{name} {megabytes(size_bytes, seconds)}" for name, seconds in took.items())
        shape = Shape(value_bytes, LARGE)
        board.line(f"append ready batches / write(): {shape}", figures, took["write()"] / took["ready"], 0.60, "%")
        target = 0.25 if value_bytes == 100 else None
        board.line(f"append rows / write(): {shape}", "", took["write()"] / took["rows"], target, "%")
    made = rows(100, 0, APPENDED_BYTES)[:SINGLES_COUNT]
    seconds = medians_seconds({"ours": partial(appends.append_singles, made)}, before=appends.empty)["ours"]
    figures = f"{seconds / len(made) * 1e6:.1f} us from key and value to visible"
    board.at_least("append single records, 100 B", figures, len(made) / seconds, 40_000, "/s")
    appends.close()


class Lookups:
    """Random records of a log, each sought by its offset, or read where its batch is known to be."""

    def __init__(self, directory: Path, shape: Shape) -> None:
        self.log = open_log(directory, segment_bytes=str(SEGMENT_BYTES))
        for batch in sent_batches(rows(shape.value_bytes, 0, APPENDED_BYTES), shape.batch_bytes):
            self.log.append_as_leader(batch)
        self.log.flush()
        view = self.log.view
        self.files = [Files().open_reading(segment.path(Kind.LOG)) for segment in view.segments]
        rng = random.Random(1)
        self.places: list[tuple[int, ReadableFile, int, int]] = []
        for _ in range(LOOKUPS_COUNT):
            offset = rng.randrange(view.end_offset)
            batch = view.find(offset)
            file = self.files[bisect_right(view.bases, offset) - 1]
            self.places.append((offset, file, batch.position, batch.size_bytes))

    def look_up(self) -> Found:
        view = self.log.view
        for offset, *_ in self.places:
            yield offset, view.find(offset)

    def read(self) -> Found:
        for offset, file, position, size_bytes in self.places:
            yield offset, next(read_batches(file.read_at(position, size_bytes), origin=position))

    def close(self) -> None:
        self.log.close()
        for file in self.files:
            file.close()


def decode(found: Found) -> None:
    """Every record of each batch, as consumers read them."""
    for _, batch in found:
        for record in batch.records():
            record.offset, record.timestamp, record.key, record.value


def decode_to_offset(found: Found) -> None:
    """The records of each batch up to the one that was sought."""
    for offset, batch in found:
        for record in batch.records():
            if record.offset == offset:
                record.timestamp, record.key, record.value
                break


def run(consume: Callable[[Found], None], find: Callable[[], Found]) -> None:
    consume(find())


def bench_lookups(board: Scoreboard, folder: Path) -> None:
    """The target is for batches decoded whole; what the one record takes, and batches of one, is shown beside it."""
    for batch_bytes in (LARGE, SMALL, SINGLE):
        shape = Shape(100, batch_bytes)
        lookups = Lookups(folder / f"lookups-{batch_bytes}", shape)
        label = "100 B, one a batch" if batch_bytes == SINGLE else str(shape)
        for consume, what in ((decode, "batches"), (decode_to_offset, "records")):
            took = medians_seconds(
                {
                    "ours": partial(run, consume, lookups.look_up),
                    "codec": partial(run, consume, lookups.read),
                }
            )
            figures = ", ".join(f"{name} {seconds / LOOKUPS_COUNT * 1e6:.1f} us" for name, seconds in took.items())
            target = 0.5 if consume is decode and batch_bytes != SINGLE else None
            board.line(f"codec / look up {what}: {label}", figures, took["codec"] / took["ours"], target, "%")
        lookups.close()


class Recoveries:
    """A log of one segment, of which recovery is to read every batch."""

    def __init__(self, directory: Path, shape: Shape) -> None:
        self.directory = directory
        log = open_log(directory)
        batches = list(sent_batches(rows(shape.value_bytes, 0, APPENDED_BYTES), shape.batch_bytes))
        while log.view.end_position < RECOVERED_BYTES:
            for batch in batches:
                log.append_as_leader(batch)
        log.close()
        (self.path,) = directory.glob("*.log")

    def recover(self) -> None:
        recover_log(
            Clock(), Files().directory(self.directory), CONFIG, is_clean=False, producer_expiration_ms=EXPIRATION_MS
        )

    def checksum(self) -> None:
        """The least that looking at all of a file takes: read it, and sum it up."""
        with Files().open_reading(self.path) as file:
            position = 0
            while window := file.read_at(position, WINDOW_BYTES):
                crc32c(window)
                position += len(window)


def bench_recovery(board: Scoreboard, folder: Path) -> None:
    for batch_bytes in (LARGE, SMALL):
        shape = Shape(100, batch_bytes)
        recoveries = Recoveries(folder / f"recoveries-{batch_bytes}", shape)
        took = medians_seconds({"recover": recoveries.recover, "read and sum": recoveries.checksum})
        size_bytes = recoveries.path.stat().st_size
        figures = ", ".join(f"{name} {megabytes(size_bytes, seconds)}" for name, seconds in took.items())
        board.line(f"recovery / read and CRC: {shape}", figures, took["read and sum"] / took["recover"], 0.60, "%")


def bench_opening(board: Scoreboard, folder: Path) -> None:
    store = folder / "store"
    make_partitions(store)
    taken = [measure_opening(store) for _ in range(1 + ROUNDS)][1:]  # the first one warms the directory entries
    opened, opened_bytes, looked, looked_bytes = (statistics.median(each) for each in zip(*taken, strict=True))
    label = f"open {PARTITIONS_COUNT} partitions, {SEGMENTS_COUNT} segments each"
    board.at_most(label, f"a first look at each takes {looked:.1f} s more", opened, 0.6, "s")
    figures = f"the process at its largest; after those looks {looked_bytes / 1e6:.0f} MB"
    board.at_most("  memory", figures, opened_bytes / 1e6, 200, "MB")


def file_system(folder: str) -> str:
    shown = subprocess.run(["df", "--output=fstype", folder], capture_output=True, text=True, check=True)
    return shown.stdout.split()[-1]


def main() -> int:
    board = Scoreboard()
    with tempfile.TemporaryDirectory() as folder:
        print(f"files on {file_system(folder)} in {tempfile.gettempdir()}; medians of CPU time, contenders in turn")
        for bench in (bench_appends, bench_lookups, bench_recovery, bench_opening):
            bench(board, Path(folder))
    for miss in board.missed:
        print(f"target missed: {miss}")
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
