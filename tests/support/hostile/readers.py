"""Readers of a mount that never stop, run as a program of its own: a process that waits for a mount cannot be stopped.

    python readers.py MOUNT PREFIX READERS

Each of its threads reads one view after another of the topics whose names start with the prefix, until the program is
killed or the mount ends.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path
from typing import Final

VIEWS: Final = (
    "offset/0",
    "offset/0.json",
    "offset/0.headers",
    "offset/all",
    "offset/last-3..",
    "by-time/-1h",
    "by-time/-1h..",
    "values",
    "keys",
    "records.jsonl",
    "info",
    "producers",
    "transactions",
    "damage.jsonl",
    f"segments/{0:020}.log",
    f"segments/{0:020}.log.txt",
)
_READ_BYTES: Final = 64 * 1024
_READS: Final = 4


def read_forever(mount: str, topics: list[str], seed: int) -> None:
    """Read views in an order of its own; errors are what hostile partitions answer with."""
    chosen = random.Random(seed)
    while os.path.ismount(mount):
        path = f"{mount}/{chosen.choice(topics)}/0/{chosen.choice(VIEWS)}"
        try:
            os.listxattr(path)
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            for _ in range(_READS):
                os.read(descriptor, _READ_BYTES)
        except OSError:
            continue
        finally:
            os.close(descriptor)


def main() -> None:
    """Read as the arguments say."""
    mount, prefix, readers = sys.argv[1:]
    topics = sorted(path.name for path in Path(mount).iterdir() if path.name.startswith(prefix))
    threads = [threading.Thread(target=read_forever, args=(mount, topics, seed)) for seed in range(int(readers))]
    for thread in threads:
        thread.start()
    print(f"{len(topics)} topics", flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
