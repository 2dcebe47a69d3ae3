"""Small files of a store, damaged, and what must hold for each: it is read, or one of our errors says why not.

Snapshots and the indexes of staged files are also read by a plain reader here, and the two compared.
"""

from __future__ import annotations

import json
import struct
from base64 import urlsafe_b64decode
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from hostile.commits import INDEXES, staged_file
from hostile.texts import ID, JSON_TEXTS, STAGED, TEXTS, TOKENS, mutated, outcome, place, replaced, stored

from fuzzing import generation
from fuzzing.findings import Finding
from fuzzing.limits import within_limits
from storage.commit.staged_file import StagedFile
from storage.errors import CorruptSnapshotError, StagingError, StorageError
from storage.files import Files
from storage.log.producers.snapshot import SnapshotFiles, decode_snapshot, encode_snapshot
from storage.log.producers.state import CachedBatch, ProducerState
from storage.record.kernel.crc32c import crc32c
from storage.testing.codec import crc32c as plain_crc32c
from storage.testing.codec import encode_batch
from storage.testing.mutations import mutate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.files import Directory

SNAPSHOT_AT: Final = 7
SNAPSHOT: Final = f"{SNAPSHOT_AT:020}.snapshot"
PRODUCERS_MAX: Final = 6
COVERED_FROM: Final = 6
COUNTS: Final = (-1, 0, 1, 2, 7, 2**31 - 1, -(2**31))
NUMBERS: Final = (-(2**63), -2, -1, 0, 1, 2**31 - 1, 2**63 - 1)
SCALARS: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**80, 10**400, 1.5, "", "t", ID, STAGED, "../x", "\ud800", [], {},
    [[]], ["t", 1, None, True],
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SmallFile:
    """The bytes of a file of that name, and what was done to make them so."""

    kind: str
    name: str
    data: bytes


def small_file(seed: int, index: int) -> SmallFile:
    """Return the file of that number."""
    rng = Random(f"{seed} small {index}")
    return rng.choice((_snapshot, _staged, _text, _json_text))(rng)


def check_small_file(path: Path, given: SmallFile) -> Counter[str]:
    """Write the file into a directory, read it, and return what came of it. Raises `Finding`."""
    directory = place(Files().directory(path), given.kind)
    return within_limits(lambda: _check(directory, given))


def _check(directory: Directory, given: SmallFile) -> Counter[str]:
    if given.name == SNAPSHOT:
        return _check_snapshot(directory, given)
    if given.name == STAGED:
        return _check_staged(directory, given)
    read = (TEXTS[given.name] if given.name in TEXTS else JSON_TEXTS[given.name])[1]
    return _told(given, _refused(directory, given, read))


def _refused(directory: Directory, given: SmallFile, read: Callable[[Directory], object]) -> StorageError | None:
    try:
        return outcome(directory, given.name, given.data, read)
    except AssertionError as error:
        raise Finding("an error of a small file lacks its path, or is long", error) from error


def _told(given: SmallFile, error: StorageError | None) -> Counter[str]:
    return Counter({f"{given.kind}: {'read' if error is None else f'refused: {type(error).__name__}'}": 1})


# Making


def _snapshot(rng: Random) -> SmallFile:
    whole = encode_snapshot([_state(rng) for _ in range(rng.randrange(PRODUCERS_MAX))])
    chance = rng.random()
    if chance < 0.3:
        return SmallFile("snapshot", SNAPSHOT, mutate(rng, whole))
    covered = bytearray(whole[COVERED_FROM:])
    if chance < 0.5:
        struct.pack_into(">i", covered, 0, rng.choice(COUNTS))
    if chance > 0.4:
        covered = bytearray(mutate(rng, bytes(covered)))
    return SmallFile("snapshot", SNAPSHOT, whole[:2] + crc32c(covered).to_bytes(4, "big") + bytes(covered))


def _state(rng: Random) -> ProducerState:
    time = rng.choice(NUMBERS)
    batches = (CachedBatch(rng.randrange(-1, 2**31), rng.choice(NUMBERS), rng.randrange(2**31), time),)
    return ProducerState(
        rng.choice(NUMBERS),
        rng.randrange(-1, 2**15),
        rng.randrange(-1, 2**31),
        time,
        rng.choice((None, *NUMBERS)),
        batches if rng.random() < 0.7 else (),
    )


def _staged(rng: Random) -> SmallFile:
    batches = [generation.random_batch(rng) for _ in range(rng.randrange(3))]
    body = b"".join(map(encode_batch, batches))
    records = sum(batch.record_count for batch in batches)
    said: Any = {"topics": [["t", 2, ID, False], ["u", 1, None, True]], "runs": [["t", 0, 0, len(body), records]]}
    chance = rng.random()
    if chance < 0.1:
        index = rng.choice(tuple(INDEXES.values()))
    elif chance < 0.5:
        index = json.dumps(_changed(rng, said)).encode()
    else:
        index = json.dumps(said).encode()
        if chance < 0.6:
            index = _mutated(rng, index)
    data = staged_file(index, mutate(rng, body) if 0.6 < chance < 0.7 else body)
    return SmallFile("staged", STAGED, mutate(rng, data) if chance > 0.8 else data)


def _text(rng: Random) -> SmallFile:
    name = rng.choice(tuple(TEXTS))
    return SmallFile(name, name, _mutated(rng, TEXTS[name][0]))


def _json_text(rng: Random) -> SmallFile:
    name = rng.choice([name for name in JSON_TEXTS if name != STAGED])
    said = JSON_TEXTS[name][0]
    data = json.dumps(_changed(rng, said)).encode() if rng.random() < 0.5 else _mutated(rng, json.dumps(said).encode())
    return SmallFile(name, name, stored(name, data))


def _mutated(rng: Random, data: bytes) -> bytes:
    if rng.random() < 0.3:
        return mutate(rng, data)
    changes = [
        (rng.randrange(len(data) + 1), rng.randrange(12), rng.choice((rng.randbytes(3), rng.choice(TOKENS))))
        for _ in range(rng.randrange(1, 5))
    ]
    return mutated(data, changes)


def _changed(rng: Random, said: object) -> object:
    for _ in range(rng.randrange(1, 3)):
        said = replaced(said, [rng.randrange(7) for _ in range(rng.randrange(5))], rng.choice(SCALARS))
    return said


# Reading


def _check_snapshot(directory: Directory, given: SmallFile) -> Counter[str]:
    states: list[ProducerState] = []
    error = _refused(directory, given, lambda there: states.extend(SnapshotFiles(there).read(SNAPSHOT_AT)))
    expected = _plain_snapshot(given.data)
    if error is not None:
        if expected is not None or not isinstance(error, CorruptSnapshotError):
            raise Finding("a snapshot is refused that can be read", error) from error
    elif states != expected:
        raise Finding("a snapshot is read wrongly", f"{states}, not {expected}")
    elif decode_snapshot(encode_snapshot(states)) != sorted(states, key=lambda state: state.producer_id):
        raise Finding("a snapshot changes when it is written again", states)
    return _told(given, error)


def _plain_snapshot(data: bytes) -> list[ProducerState] | None:
    """Read a snapshot number by number; None if it is none."""
    numbers = _Numbers(data)
    try:
        version, checksum = numbers.next(2), numbers.next(4) % 2**32
        if version != 1 or plain_crc32c(data[COVERED_FROM:]) != checksum:
            return None
        count = numbers.next(4)
        states = [_plain_state(numbers) for _ in range(min(count, len(data)))]
    except EOFError:
        return None
    return states if count >= 0 and numbers.position == len(data) else None


def _plain_state(numbers: _Numbers) -> ProducerState:
    producer_id, epoch, sequence, offset, delta, time, coordinator, transaction = map(
        numbers.next, (8, 2, 4, 8, 4, 8, 4, 8)
    )
    return ProducerState(
        producer_id=producer_id,
        epoch=epoch,
        coordinator_epoch=coordinator,
        last_timestamp=time,
        transaction_offset=None if transaction < 0 else transaction,
        batches=() if offset < 0 else (CachedBatch(sequence, offset, delta, time),),
    )


class _Numbers:
    """Signed numbers that lie one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def next(self, size_bytes: int) -> int:
        """Return the next one; raises `EOFError` where it is cut short."""
        end = self.position + size_bytes
        if end > len(self._data):
            raise EOFError
        number = int.from_bytes(self._data[self.position : end], "big", signed=True)
        self.position = end
        return number


def _check_staged(directory: Directory, given: SmallFile) -> Counter[str]:
    found: list[StagedFile] = []
    error = _refused(directory, given, lambda there: found.append(StagedFile(there, STAGED)))
    if error is not None:
        if not isinstance(error, StagingError):
            raise Finding("a staged file is refused by the error of another", repr(error)) from error
        return _told(given, error)
    _compare_index(found[0], *_plain_index(given.data))
    return _told(given, _damage(found[0]))


def _compare_index(staged: StagedFile, said: dict[str, Any], end: int) -> None:
    expected = {name: (number, text and _id_bytes(text), is_new) for name, number, text, is_new in said["topics"]}
    seen = {
        name: (each.partitions, each.topic_id and each.topic_id.bytes, each.is_new)
        for name, each in staged.topics.items()
    }
    runs = [[*run.partition, *run[1:]] for run in staged.runs]
    if seen != expected or runs != said["runs"]:
        raise Finding("the index of a staged file is read wrongly", f"{seen} {runs}, not {said}")
    if any(run.position + run.size_bytes > end or min(run[1:]) < 0 for run in staged.runs):
        raise Finding("a run of a staged file lies outside of its batches", f"{runs}, {end}")


def _damage(staged: StagedFile) -> StorageError | None:
    """Read all batches, and return the error that they end in."""
    for partition in {run.partition for run in staged.runs}:
        try:
            records = sum(batch.count for batch in staged.batches(partition))
        except StorageError as error:
            if error.path is None or not isinstance(error, StagingError):
                raise Finding("damage in a staged file is not told as such", repr(error)) from error
            return error
        if records != sum(run.records for run in staged.runs if run.partition == partition):
            raise Finding("a staged file has other records than its index says", f"{records}, {staged.runs}")
    return None


def _id_bytes(text: str) -> bytes:
    return urlsafe_b64decode(f"{text}==")


def _plain_index(data: bytes) -> tuple[dict[str, Any], int]:
    """Return what the index of a staged file says, and where it begins."""
    if data[-8:] != b"kafkafs1":
        raise Finding("a staged file is read without its end")
    length, checksum = (int.from_bytes(data[at : at + 4], "big") for at in (-16 + len(data), -12 + len(data)))
    end = len(data) - 16 - length
    index = data[end : len(data) - 16]
    if end < 0 or plain_crc32c(index) != checksum:
        raise Finding("a staged file is read with a wrong checksum")
    said: dict[str, Any] = json.loads(index)
    return said, end
