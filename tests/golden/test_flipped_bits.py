"""One flipped bit in any file of a broker: what a checksum, an order or a second file contradicts is found."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from peer_logs import framed

from storage.files import Files
from storage.verify import Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.golden, pytest.mark.property]

IS_PROOF = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
SETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed")
FLIPS = 10_000 if IS_PROOF else 48
SHARES = 20 if IS_PROOF else 1
LOG_DIRS = ("d1", "d2")
UNREAD = (".lock", ".kafka_cleanshutdown")  # only that they are there counts
TRANSACTION_ENTRY_BYTES, STABLE_OFFSET_AT = 34, 26
FIRST_COMPACT_VERSION = 2

# No file says what these ought to be. A verification may find a flip in them all the same.
UNCONTRADICTED = {
    "a log: base offset",  # if no batch before or after is where it would be then
    "a log: leader epoch",
    "a transaction index: last stable offset",
    "a file that is to be removed",
    "meta.properties: a comment",
    "leader-epoch-checkpoint: where an epoch begins",
    "a checkpoint: an offset or a name",
}


class Flip(NamedTuple):
    """A file of a set, by its path below it, a byte and a bit."""

    path: str
    at: int
    bit: int

    @property
    def topic(self) -> str | None:
        """The topic in whose verification the flip shows; None if it shows in that of the store."""
        _, directory, *name = self.path.split("/")
        is_one = name and not re.search("-(delete|stray|future)$", directory)
        return directory.rpartition("-")[0] if is_one else None


def field_of(flip: Flip, data: bytes) -> str:
    """Return what the byte belongs to."""
    name = flip.path.rpartition("/")[2]
    if name.endswith(".deleted") or "-delete/" in flip.path:
        return "a file that is to be removed"
    if name.endswith(".log"):
        for position, batch in framed(data):
            if position <= flip.at < position + len(batch) and batch[16] >= FIRST_COMPACT_VERSION:
                return {0: "a log: base offset", 3: "a log: leader epoch"}.get(
                    (flip.at - position) // 4 - (4 <= flip.at - position < 8), "a log"
                )
        return "a log"
    if name.endswith(".txnindex") and flip.at % TRANSACTION_ENTRY_BYTES >= STABLE_OFFSET_AT:
        return "a transaction index: last stable offset"
    line = data[: flip.at].count(b"\n")
    if name == "meta.properties":
        return f"{name}: {'a comment' if data.splitlines()[line].startswith(b'#') else 'a property'}"
    if name == "leader-epoch-checkpoint":
        is_start = line > 1 and b" " in data.splitlines()[line][: flip.at - data.rfind(b"\n", 0, flip.at)]
        return f"{name}: {'where an epoch begins' if is_start else 'the rest'}"
    if name.endswith("-checkpoint"):
        return "a checkpoint: an offset or a name" if line > 1 else "a checkpoint: its head"
    return re.sub(r"^\d+", "", name)


def found_in(root: Path, topic: str | None) -> set[tuple[object, ...]]:
    topics = () if topic is None else (topic,)
    verification = Verification(Files(), [root / name for name in LOG_DIRS], topics=topics)
    return {(each.log_dir, each.path, each.reason, *each.identity) for each in verification.run(lambda: None)}


def flips(root: Path, seed: int, count: int) -> Iterator[Flip]:
    """Yield flips: in any file as often, and in any byte of it."""
    rng = random.Random(seed)
    files = [path for name in LOG_DIRS for path in sorted((root / name).rglob("*")) if path.is_file()]
    files = [path for path in files if path.stat().st_size and path.name not in UNREAD]
    for path in rng.choices(files, k=count):
        yield Flip(str(path.relative_to(root)), rng.randrange(path.stat().st_size), rng.randrange(8))


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("name", SETS)
def test_a_flipped_bit_is_found(name: str, share: int, datasets: Callable[[str], Path], tmp_path: Path) -> None:
    root = tmp_path / name
    for directory in LOG_DIRS:
        shutil.copytree(datasets(name) / name / directory, root / directory)
    before: dict[str | None, set[tuple[object, ...]]] = {}
    counts: Counter[tuple[str, bool]] = Counter()
    missed: list[Flip] = []
    for flip in flips(root, share, FLIPS // SHARES // len(SETS)):
        due = before.get(flip.topic)
        if due is None:
            due = before[flip.topic] = found_in(root, flip.topic)
        path = root / flip.path
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(flip.at)
            file.write(bytes([data[flip.at] ^ 1 << flip.bit]))
            file.flush()
            try:
                is_found = found_in(root, flip.topic) != due
            finally:
                file.seek(flip.at)
                file.write(data[flip.at : flip.at + 1])
        field = field_of(flip, data)
        counts[field, is_found] += 1
        if not is_found and field not in UNCONTRADICTED:
            missed.append(flip)
    for field, is_found in sorted(counts):  # pytest's -rA shows it
        print(f"{name}: {field}: {counts[field, is_found]} {'found' if is_found else 'not found'}")
    assert missed == []
