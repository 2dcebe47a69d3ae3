"""`kafkafs dump` beside the real kafka-dump-log: wall time of whole processes, and whether their text is equal."""

from __future__ import annotations

import filecmp
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from segments import Shape, rows
from timing import Scoreboard

from storage.record import BatchForm, Codec, batches_of_rows

CHECKOUT = Path(__file__).resolve().parents[2]
SEGMENT_BYTES = 100_000_000
ROUNDS = 3
TARGET = 3.0
SHAPES = (Shape(100, 16 * 1024), Shape(1024, 1 << 20), Shape(100, 16 * 1024, codec=Codec.LZ4))


def write_segment(shape: Shape, path: Path) -> None:
    """A segment of the full size, the same rows again and again under rising offsets."""
    made = rows(shape.value_bytes, shape.header_count)
    form = BatchForm(codec=shape.codec)
    offset = 0
    with path.open("wb") as file:
        while file.tell() < SEGMENT_BYTES:
            for batch in batches_of_rows(made, base_offset=offset, max_bytes=shape.batch_bytes, form=form):
                file.write(batch)
                if file.tell() >= SEGMENT_BYTES:
                    break
            offset += len(made)


def seconds(command: list[str], output: Path) -> float:
    with output.open("wb") as sink:
        start = time.perf_counter()
        subprocess.run(command, stdout=sink, check=True, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start


def main() -> int:
    board = Scoreboard()
    ours = [str(CHECKOUT / "scripts" / "kafkafs"), "dump"]
    real = [str(CHECKOUT / "scripts" / "kafka"), "dump"]
    with tempfile.TemporaryDirectory() as folder:
        segment = Path(folder) / "00000000000000000000.log"
        texts = Path(folder) / "ours.txt", Path(folder) / "real.txt"
        for shape in SHAPES:
            write_segment(shape, segment)
            took = [
                (seconds([*ours, str(segment)], texts[0]), seconds([*real, str(segment)], texts[1]))
                for _ in range(ROUNDS)
            ]
            mine, theirs = (statistics.median(each) for each in zip(*took, strict=True))
            equal = filecmp.cmp(*texts, shallow=False)
            figures = f"ours {mine:.2f} s, kafka-dump-log {theirs:.2f} s, text {'equal' if equal else 'DIFFERS'}"
            board.line(f"dump 100 MB: {shape}", figures, theirs / mine if equal else 0.0, TARGET)
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
