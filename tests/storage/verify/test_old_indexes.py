"""What old brokers wrote and what truncations left in indexes is no damage, and damage beside it is found."""

from __future__ import annotations

import random
import struct

import pytest
from checked_logs import bases, closed_log, damages, findings, replace
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from storage.record import Codec, encode_entries, encode_wrapper
from storage.record.encoding import BatchForm
from storage.segment.scan import LogScan
from storage.testing.batch_codec import OracleRecord
from storage.verify.finding import Finding, FindingKind, Severity

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
FIRST = f"{0:020d}"
ONE_SEGMENT = {"segment.bytes": str(2**20), "segment.index.bytes": "12000", "index.interval.bytes": "256"}
COMMON = 40


def notices(found: list[Finding]) -> set[tuple[FindingKind, str]]:
    """The kinds and files, if nothing is damaged."""
    assert [finding for finding in found if finding.severity is not Severity.NOTICE] == []
    return {(finding.kind, finding.path) for finding in found}


def test_first_offsets_of_batches_are_what_brokers_before_2_wrote() -> None:
    log = closed_log()
    changed = set()
    for name in bases(log):
        with log.files.open_reading(f"{DIRECTORY}/{name}.log") as file:
            firsts = {batch.position: batch.base_offset for batch in LogScan(file)}
        entries = OFFSET_ENTRY.iter_unpack(log.contents()[f"{name}.index"])
        data = [OFFSET_ENTRY.pack(firsts[position] - int(name), position) for _, position in entries]
        replace(log, f"{name}.index", b"".join(data))
        changed |= {f"{name}.index"} if data else set()
        for slot, entry in enumerate(data):
            relative, position = OFFSET_ENTRY.unpack(entry)
            changed_data = [*data[:slot], OFFSET_ENTRY.pack(relative - 1, position), *data[slot + 1 :]]
            replace(log, f"{name}.index", b"".join(changed_data))  # as if the batch before began there
            assert damages(log) == {(FindingKind.INDEX_ENTRY, f"{name}.index")}, (name, slot)
        replace(log, f"{name}.index", b"".join(data))
    assert len(changed) > 3
    assert notices(findings(log.files)) == {(FindingKind.INDEX_ENTRY, name) for name in changed}


def legacy_log(magic: int) -> tuple[LogOnMemory, list[tuple[int, int, int]]]:
    """A closed log of one segment in an old format, and of each batch its position, last offset and latest time."""
    log = LogOnMemory(ONE_SEGMENT)
    log.log.close()
    for name in log.contents():
        log.files.remove(f"{DIRECTORY}/{name}")
    parts, places, offset = [], [], 0
    for number in range(30):
        time_ms = NOW_MS + 10 * number
        records = [OracleRecord(offset + at, time_ms + at, b"k", b"v" * (at + 1)) for at in range(3)]
        batches = [records] if number % 2 else [[record] for record in records]
        for batch in batches:
            places.append((sum(map(len, parts)), batch[-1].offset, batch[-1].timestamp))
            parts.append(encode_wrapper(batch, magic, Codec.GZIP) if number % 2 else encode_entries(batch, magic))
        offset += 3
    replace(log, f"{FIRST}.log", b"".join(parts))
    replace(log, f"{FIRST}.index", b"".join(OFFSET_ENTRY.pack(last, position) for position, last, _ in places[1:]))
    return log, places


@pytest.mark.parametrize("magic", [0, 1])
def test_segments_from_before_time_indexes_lack_them(magic: int) -> None:
    log, _ = legacy_log(magic)
    assert notices(findings(log.files)) == {(FindingKind.MISSING_INDEX, f"{FIRST}.timeindex")}
    replace(log, f"{FIRST}.timeindex", b"")  # as the next broker makes it
    expected = {(FindingKind.TIME_INDEX_ENTRY, f"{FIRST}.timeindex")} if magic else set()
    assert notices(findings(log.files)) == expected
    log.files.remove(f"{DIRECTORY}/{FIRST}.index")
    assert damages(log) == {(FindingKind.MISSING_INDEX, f"{FIRST}.index")}


def test_times_that_records_lost_when_they_were_converted() -> None:
    log, places = legacy_log(0)
    entries = [TIME_ENTRY.pack(time, last) for _, last, time in places]
    replace(log, f"{FIRST}.timeindex", b"".join(entries))
    assert notices(findings(log.files)) == {(FindingKind.TIME_INDEX_ENTRY, f"{FIRST}.timeindex")}
    replace(log, f"{FIRST}.timeindex", b"".join([*entries, TIME_ENTRY.pack(NOW_MS * 2, 10**6)]))  # beyond the log
    assert damages(log) == {(FindingKind.TIME_INDEX_ENTRY, f"{FIRST}.timeindex")}
    replace(log, f"{FIRST}.timeindex", b"".join(reversed(entries)))
    assert damages(log) == {(FindingKind.TIME_INDEX_ENTRY, f"{FIRST}.timeindex")}


def overwrite(log: LogOnMemory, name: str, data: bytes) -> None:
    """Change a file that the log has mapped."""
    with log.files.open_writing(f"{DIRECTORY}/{name}") as file:
        file.write_at(0, [data])


def log_of(seed: int, others: int) -> LogOnMemory:
    """An open log that begins as all of these do, and goes on as only this seed's does."""
    log = LogOnMemory(ONE_SEGMENT)
    common, rng = random.Random(0), random.Random(seed)
    for number in range(COMMON + others):
        source = common if number < COMMON else rng
        rows = [
            (NOW_MS + 10 * number + at, source.randbytes(source.randrange(90))) for at in range(source.randint(1, 5))
        ]
        log.log.append_as_leader(sent(rows, BatchForm()), leader_epoch=0 if number < COMMON else seed)
    return log


def truncated(seed: int, others: int, old_others: int) -> LogOnMemory:
    """The log, whose indexes a truncation of another one has left their entries in."""
    log, old = log_of(seed, others), log_of(seed + 100, old_others)
    for suffix, entry in ((".index", OFFSET_ENTRY), (".timeindex", TIME_ENTRY)):
        data, left = (each.contents()[f"{FIRST}{suffix}"] for each in (log, old))
        used = len(data.rstrip(b"\0")) + entry.size - 1
        used -= used % entry.size
        overwrite(log, f"{FIRST}{suffix}", data[:used] + left[used:])
    return log


@pytest.mark.parametrize("others", [0, 3, 20, 60])
@pytest.mark.parametrize("seed", range(1, 6))
def test_what_a_truncation_left_in_the_indexes_of_an_active_segment_is_no_damage(seed: int, others: int) -> None:
    log = truncated(seed, others, 120)
    expected = {(FindingKind.INDEX_ENTRY, f"{FIRST}.index"), (FindingKind.TIME_INDEX_ENTRY, f"{FIRST}.timeindex")}
    assert notices(findings(log.files, is_clean=False)) == expected


def test_after_a_clean_stop_it_is_damage() -> None:
    found = damages(truncated(1, 20, 120), is_clean=True)
    assert {kind for kind, _ in found} >= {FindingKind.INDEX_ENTRY, FindingKind.TIME_INDEX_ENTRY}


def test_a_changed_entry_before_it_is_found_all_the_same() -> None:
    log, rng = truncated(2, 60, 100), random.Random(6)
    whole = log.contents()[f"{FIRST}.index"]
    sound = log_of(2, 60).contents()[f"{FIRST}.index"]
    used = len(sound.rstrip(b"\0")) // 8
    assert used > 20
    for slot in range(used - 20):  # those after it outweigh what is left of the old ones
        data = bytearray(whole)
        data[8 * slot + 4 + rng.randrange(3)] ^= 0x55
        overwrite(log, f"{FIRST}.index", bytes(data))
        assert (FindingKind.INDEX_ENTRY, f"{FIRST}.index") in damages(log, is_clean=False), slot


def test_entries_that_no_broker_writes_are_damage_wherever_they_are() -> None:
    log = truncated(3, 20, 120)
    whole = log.contents()[f"{FIRST}.index"]
    last = len(whole.rstrip(b"\0")) // 8
    for entry in (OFFSET_ENTRY.pack(-5, 2**30), OFFSET_ENTRY.pack(2**30, -5)):
        overwrite(log, f"{FIRST}.index", whole[: 8 * last] + entry + whole[8 * last + 8 :])
        assert damages(log, is_clean=False) == {(FindingKind.INDEX_ENTRY, f"{FIRST}.index")}


def last_entry(data: bytes, size: int) -> int:
    """Where the last entry of an index lies that has unused slots."""
    used = -(-len(data.rstrip(b"\0")) // size)
    return (used - 1) * size


@pytest.mark.parametrize(("suffix", "entry"), [(".index", OFFSET_ENTRY), (".timeindex", TIME_ENTRY)])
def test_a_changed_bit_in_the_last_entry_is_damage_where_no_leader_has_begun(suffix: str, entry: struct.Struct) -> None:
    """A log that was never truncated has the same epoch all through."""
    log = LogOnMemory(ONE_SEGMENT)
    rng = random.Random(1)
    for number in range(60):
        log.log.append_as_leader(sent([(NOW_MS + 10 * number, rng.randbytes(90))], BatchForm()), leader_epoch=0)
    name = f"{FIRST}{suffix}"
    whole = log.contents()[name]
    at = last_entry(whole, entry.size)
    assert at > 0
    assert notices(findings(log.files, is_clean=False)) == set()
    kind = FindingKind.INDEX_ENTRY if suffix == ".index" else FindingKind.TIME_INDEX_ENTRY
    with log.files.open_reading(f"{DIRECTORY}/{FIRST}.log") as file:
        lasts = {batch.position: batch.last_offset for batch in LogScan(file)}
    told = 0
    for bit in range(8 * entry.size):
        data = bytearray(whole)
        data[at + bit // 8] ^= 1 << bit % 8
        overwrite(log, name, bytes(data))
        relative, position = OFFSET_ENTRY.unpack_from(data, at)
        if suffix == ".index" and lasts.get(position, 60) <= relative < 60:
            continue  # as if several batches had been appended together
        found = damages(log, is_clean=False)
        assert found == {(kind, name)}, bit
        told += 1
    assert told > 8 * entry.size - 10


@pytest.mark.parametrize("others", [0, 20, 60])
def test_an_old_entry_from_before_the_truncation_is_damage_among_those_it_left(others: int) -> None:
    log = truncated(1, others, 120)
    name = f"{FIRST}.index"
    whole = log.contents()[name]
    at = last_entry(whole, 8)
    relative, position = OFFSET_ENTRY.unpack_from(whole, at)
    overwrite(log, name, whole[:at] + OFFSET_ENTRY.pack(relative, 700) + whole[at + 8 :])
    assert damages(log, is_clean=False) == {(FindingKind.INDEX_ENTRY, name)}
    assert position > 700
