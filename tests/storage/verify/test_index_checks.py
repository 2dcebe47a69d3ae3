"""Every entry of every index that is changed is found, unless an older broker may have written it so."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from checked_logs import bases, closed_log, damages, findings, replace
from memory_logs import DIRECTORY

from storage.segment.scan import LogScan
from storage.verify.finding import FindingKind

if TYPE_CHECKING:
    from memory_logs import LogOnMemory

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
FIRST = "00000000000000000000"


def accepted_offsets(log: LogOnMemory, name: str) -> dict[int, list[int]]:
    """For the position of each batch the last offsets from there to the end."""
    with log.files.open_reading(f"{DIRECTORY}/{name}.log") as file:
        batches = list(LogScan(file))
    ends = [batch.last_offset for batch in batches]
    return {batch.position: ends[at:] for at, batch in enumerate(batches)}


def test_every_changed_entry_of_an_offset_index_is_findings() -> None:
    """Except one that says what a broker before 4.0 may have written."""
    log, rng = closed_log(), random.Random(2)
    changed = unknowable = 0
    for name in bases(log):
        whole = log.contents()[f"{name}.index"]
        positions = [position for _, position in OFFSET_ENTRY.iter_unpack(whole)]
        accepted = accepted_offsets(log, name)
        for slot in range(len(whole) // 8):
            for _ in range(8):
                bit = rng.randrange(64)
                data = bytearray(whole)
                data[8 * slot + bit // 8] ^= 1 << bit % 8
                relative, position = OFFSET_ENTRY.unpack_from(data, 8 * slot)
                entries = list(OFFSET_ENTRY.iter_unpack(data))
                rises = all(low < high for pair in pairwise(entries) for low, high in zip(*pair, strict=True))
                behind = [at for at in positions[slot + 1 :] if at > position]
                bound = accepted[behind[0]][0] if behind else 2**62
                is_run = int(name) + relative in [end for end in accepted.get(position, []) if end < bound]
                replace(log, f"{name}.index", bytes(data))
                changed += 1
                unknowable += rises and is_run
                assert bool(damages(log)) is not (rises and is_run), (name, slot, bit)
        replace(log, f"{name}.index", whole)
    assert unknowable < changed / 10
    assert changed > 300


def test_every_changed_entry_of_a_time_index_is_findings() -> None:
    log, rng = closed_log(), random.Random(3)
    for name in bases(log):
        whole = log.contents()[f"{name}.timeindex"]
        for slot in range(len(whole) // 12):
            bit = rng.randrange(64) if slot % 2 else 64 + rng.randrange(32)
            data = bytearray(whole)
            data[12 * slot + bit // 8] ^= 1 << bit % 8
            _, relative = TIME_ENTRY.unpack_from(data, 12 * slot)
            _, before = TIME_ENTRY.unpack_from(whole, 12 * slot)
            replace(log, f"{name}.timeindex", bytes(data))
            is_records_own = before - 2 <= relative < before and bit >= 64
            path = f"{name}.timeindex"
            assert (damages(log) == {(FindingKind.TIME_INDEX_ENTRY, path)}) or is_records_own, (name, slot, bit)
        replace(log, f"{name}.timeindex", whole)


def test_every_changed_byte_of_a_transaction_index_is_findings() -> None:
    log = closed_log()
    (name,) = [name for name in log.contents() if name.endswith(".txnindex")]
    whole = log.contents()[name]
    assert len(whole) == 34
    for at in range(34):
        data = bytearray(whole)
        data[at] ^= 0x41
        replace(log, name, bytes(data))
        assert (FindingKind.TRANSACTION_INDEX_ENTRY, name) in damages(log), at
    for data, kind in ((b"", FindingKind.TRANSACTION_INDEX_ENTRY), (whole + b"\1", FindingKind.INDEX_SIZE)):
        replace(log, name, data)
        assert damages(log) == {(kind, name)}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_that_are_missing_odd_untrimmed_or_cut(suffix: str) -> None:
    log = closed_log()
    name = f"{bases(log)[1]}{suffix}"
    whole = log.contents()[name]
    for data, kind in (
        (whole + b"\1\2\3", FindingKind.INDEX_SIZE),
        (whole + bytes(120), FindingKind.UNTRIMMED_INDEX),
    ):
        replace(log, name, data)
        assert damages(log) == damages(log, is_clean=False) == {(kind, name)}
    log.files.remove(f"{DIRECTORY}/{name}")
    assert damages(log) == {(FindingKind.MISSING_INDEX, name)}
    if suffix == ".timeindex":
        replace(log, name, whole[:-12])
        assert damages(log) == {(FindingKind.TIME_INDEX_ENTRY, name)}


def test_findings_of_a_file_that_is_wrong_all_over_are_not_endless() -> None:
    log = closed_log()
    name = f"{FIRST}.index"
    replace(log, name, b"".join(OFFSET_ENTRY.pack(at + 1, 10**6 + at) for at in range(500)))
    everything = findings(log.files)
    assert len(everything) == 101
    assert everything[-1].reason.endswith("; the last of 400 more like this")
