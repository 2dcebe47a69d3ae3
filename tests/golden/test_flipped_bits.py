"""One flipped bit in any file of a broker: what a checksum, an order or a second file contradicts is found."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
from collections import Counter
from itertools import pairwise
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
TRANSACTION_ENTRY_BYTES, FIRST_OFFSET_AT, STABLE_OFFSET_AT = 34, 10, 26
FIRST_COMPACT_VERSION = 2
UNUSED_BITS = 4  # 22 characters of base64 have 132 bits, and an id 128

# No file says what these ought to be. A verification may find a flip in them all the same.
UNCONTRADICTED = {
    "a log: base offset",  # if no batch before or after is where it would be then
    "a log: leader epoch",
    "a transaction index: last stable offset",
    "a file that is to be removed",
    "meta.properties: a comment",
    "a transaction index of a compacted log: first offset",
    "a time index: an offset of the same batch",
    "an offset index: an offset that the position leads to",
    "leader-epoch-checkpoint: where an epoch begins",
    "leader-epoch-checkpoint: an epoch that no batch has",
    "meta.properties: version 0, which may be missing",
    "partition.metadata: the version, of which brokers take any",
    "partition.metadata: the bits of the last character that no id has",
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


def field_of(flip: Flip, data: bytes, directory: Path) -> str:
    """Return what the byte of a file in the directory belongs to."""
    name = flip.path.rpartition("/")[2]
    if name.endswith(".deleted") or "-delete/" in flip.path:
        return "a file that is to be removed"
    if name.endswith((".log", ".checkpoint")):  # a snapshot of the metadata has batches too
        return field_of_log(flip.at, data)
    if name.endswith(("index", ".timeindex")):
        return field_of_index(flip, data, directory / f"{name.partition('.')[0]}.log") or re.sub(r"^\d+", "", name)
    line = data[: flip.at].count(b"\n")
    text = data.splitlines()[min(line, data.count(b"\n"))]
    if name == "meta.properties":
        kind = "version 0, which may be missing" if text == b"version=0" else "a property"
        return f"{name}: {'a comment' if text.startswith(b'#') else kind}"
    if name == "partition.metadata" and flip.at == len(b"version: "):
        return f"{name}: the version, of which brokers take any"
    if name == "partition.metadata" and flip.at == len(data) - 1 and flip.bit < UNUSED_BITS:
        return f"{name}: the bits of the last character that no id has"
    if name == "leader-epoch-checkpoint":
        if line > 1 and b" " in text[: flip.at - data.rfind(b"\n", 0, flip.at)]:
            return f"{name}: where an epoch begins"
        is_unused = line > 1 and int(text.partition(b" ")[0]) not in epochs_of(directory)
        return f"{name}: {'an epoch that no batch has' if is_unused else 'the rest'}"
    if name.endswith("-checkpoint"):
        return "a checkpoint: an offset or a name" if line > 1 else "a checkpoint: its head"
    return name


def field_of_log(at: int, data: bytes) -> str:
    for position, batch in framed(data):
        if position <= at < position + len(batch) and batch[16] >= FIRST_COMPACT_VERSION:
            word = (at - position) // 4 - (4 <= at - position < 8)
            return {0: "a log: base offset", 3: "a log: leader epoch"}.get(word, "a log")
    return "a log"


def field_of_index(flip: Flip, data: bytes, log: Path) -> str | None:
    """Return what an index says there that nothing contradicts; None for the rest of it."""
    changed = bytearray(data)
    changed[flip.at] ^= 1 << flip.bit
    if flip.path.endswith(".txnindex"):
        at = flip.at % TRANSACTION_ENTRY_BYTES
        if at >= STABLE_OFFSET_AT:
            return "a transaction index: last stable offset"
        is_first = FIRST_OFFSET_AT <= at < FIRST_OFFSET_AT + 8
        return "a transaction index of a compacted log: first offset" if is_first and "-compact-" in flip.path else None
    base = int(log.stem)
    batches = [(position, *offsets_of(batch)) for position, batch in framed(log.read_bytes())]
    if flip.path.endswith(".timeindex"):
        (before,), (after,) = (struct.unpack_from(">i", each, flip.at // 12 * 12 + 8) for each in (data, changed))
        is_in_one = any(
            first <= base + min(before, after) and base + max(before, after) <= last for _, first, last, _ in batches
        )
        return "a time index: an offset of the same batch" if is_in_one and flip.at % 12 >= 8 else None
    number = flip.at // 8
    entries = [struct.unpack_from(">ii", changed, at) for at in range(0, len(changed) - 7, 8)]
    offset, position = entries[number]
    entries = [each for each in entries if any(each)]  # a broker that was killed leaves zeros after them
    is_ordered = all(one < other for (one, _), (other, _) in pairwise(entries))
    # Of several batches appended together an entry has the first one's position and the last one's offset.
    leads_there = any(at == position and first <= base + offset for at, first, _, _ in batches)
    return "an offset index: an offset that the position leads to" if is_ordered and leads_there else None


def offsets_of(batch: bytes) -> tuple[int, int, int]:
    """Return the first and the last offset, and the magic number."""
    (first,), magic = struct.unpack_from(">q", batch), batch[16]
    return first, first + (struct.unpack_from(">i", batch, 23)[0] if magic >= FIRST_COMPACT_VERSION else 0), magic


def epochs_of(directory: Path) -> set[int]:
    """Return the leader epochs of the batches of a log."""
    batches = (batch for log in directory.glob("*.log") for _, batch in framed(log.read_bytes()))
    return {struct.unpack_from(">i", each, 12)[0] for each in batches if each[16] >= FIRST_COMPACT_VERSION}


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
        field = field_of(flip, data, path.parent)
        counts[field, is_found] += 1
        if not is_found and field not in UNCONTRADICTED:
            missed.append(flip)
    for field, is_found in sorted(counts):  # pytest's -rA shows it
        print(f"{name}: {field}: {counts[field, is_found]} {'found' if is_found else 'not found'}")
    assert missed == []
