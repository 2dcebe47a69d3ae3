"""Dumps of offset and time indexes where no broker was there to write them, or where something beside them is wrong."""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.dump.index_dump import KEPT, Mismatches
from kafkafs.dump.log_beside import LogBeside
from storage.errors import CorruptIndexError
from storage.files import Files
from storage.testing.batch_codec import OracleRecord, batch_of, encode_batch
from storage.testing.mutations import mutate

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

GZIP = 1
BASE = 1000
LIMIT_BYTES = 10**6
STEM = f"{BASE:020d}"


def batch(first: int, *, codec: int = 0, value: bytes = b"v") -> bytes:
    """Return ten records, whose last but one has the latest time."""
    records = [
        OracleRecord(offset=offset, timestamp=offset * 10 + (20 if offset == first + 8 else 0), value=value)
        for offset in range(first, first + 10)
    ]
    return encode_batch(batch_of(records, attributes=codec))


BATCHES = [batch(BASE), batch(BASE + 10, codec=GZIP), batch(BASE + 20)]
SECOND = len(BATCHES[0])
THIRD = SECOND + len(BATCHES[1])
LOG = b"".join(BATCHES)
OFFSETS = struct.pack(">iiii", 19, SECOND, 29, THIRD)
TIMES = struct.pack(">qiqi", 10200, 19, 10300, 29)
OFFSET_LINES = [f"offset: 1019 position: {SECOND}", f"offset: 1029 position: {THIRD}"]
TIME_LINES = ["timestamp: 10200 offset: 1019", "timestamp: 10300 offset: 1029"]


def dump(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["dump", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def lines(result: Result) -> list[str]:
    """What follows on the line that names the file."""
    return result.stdout.splitlines()[1:]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / f"{STEM}.index"
    path.write_bytes(OFFSETS)
    path.with_suffix(".timeindex").write_bytes(TIMES)
    path.with_suffix(".log").write_bytes(LOG)
    return path


@pytest.fixture
def times(index: Path) -> Path:
    return index.with_suffix(".timeindex")


def test_sound_indexes(index: Path, times: Path) -> None:
    assert (lines(dump(index)), dump(index).stderr, dump(index).exit_code) == (OFFSET_LINES, "", 0)
    assert (lines(dump(times)), dump(times).stderr, dump(times).exit_code) == (TIME_LINES, "", 0)


def test_objects_have_the_entries_and_what_the_log_has_instead(index: Path, times: Path) -> None:
    index.write_bytes(struct.pack(">ii", 18, SECOND) + OFFSETS[8:])
    times.write_bytes(struct.pack(">qiqiqi", 10201, 19, 10250, 28, 10300, 29))
    file, *entries = map(json.loads, dump("--jsonl", index).stdout.splitlines())
    assert file == {"type": "file", "path": str(index)}
    assert entries == [
        {"type": "indexEntry", "offset": 1018, "position": SECOND, "logOffset": 1019},
        {"type": "indexEntry", "offset": 1029, "position": THIRD},
    ]
    assert json.loads(dump("--json", times).stdout)[1:] == [
        {"type": "timeIndexEntry", "timestamp": 10201, "offset": 1019, "logTimestamp": 10200},
        {"type": "timeIndexEntry", "timestamp": 10250, "offset": 1028, "logOffset": 1029},
        {"type": "timeIndexEntry", "timestamp": 10300, "offset": 1029},
    ]


def test_mismatches_end_with_0_because_older_brokers_write_them(index: Path, times: Path) -> None:
    index.write_bytes(struct.pack(">ii", 18, SECOND) + struct.pack(">ii", 28, THIRD))
    times.write_bytes(struct.pack(">qiqiqi", 10201, 19, 10200, 19, 10250, 28))
    assert (lines(dump("--verify-index-only", index)), dump("--verify-index-only", times).exit_code) == ([], 0)
    assert dump(index).stderr.splitlines() == [
        f"Mismatches in :{index}",
        "  Index offset: 1028, log offset: 1029",
        "  Index offset: 1018, log offset: 1019",
    ]
    assert dump("--verify-index-only", times).stderr.splitlines() == [
        f"Found timestamp mismatch in :{times}",
        "  Index timestamp: 10201, log timestamp: 10200",
        f"Found out of order timestamp in :{times}",
        "  Index timestamp: 10200, Previously indexed timestamp: 10201",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 1028, found log offset: 1029",
    ]


@pytest.mark.parametrize("option", ["--no-data", "--verify-index-only", "--index-sanity-check"])
def test_a_missing_log_is_said_and_nothing_is_compared(index: Path, times: Path, option: str) -> None:
    index.with_suffix(".log").unlink()
    for path, entries in ((index, OFFSET_LINES), (times, TIME_LINES)):
        shown = {"--no-data": entries, "--index-sanity-check": [f"{path} passed sanity check."]}.get(option, [])
        result = dump(option, path)
        assert lines(result) == [f"Damaged: the log beside it, {STEM}.log, is missing ({path})", *shown]
        assert (result.stderr, result.exit_code) == ("", 1)


def test_a_missing_offset_index_is_said_and_not_made(index: Path, times: Path) -> None:
    index.unlink()
    result = dump(times)
    assert lines(result) == [f"Damaged: the offset index beside it, {STEM}.index, is missing ({times})", *TIME_LINES]
    assert (result.stderr, result.exit_code) == ("", 1)
    assert not index.exists()


def test_entries_beyond_a_log_cut_short_are_said_one_by_one(index: Path, times: Path) -> None:
    index.with_suffix(".log").write_bytes(LOG[: SECOND + 9])
    size = SECOND + 9
    no_batch = f"Damaged: the log of {size} bytes has no whole batch at its position {SECOND}"
    assert lines(dump(index)) == [
        f"{no_batch} ({index}, position 0, offset 1019)",
        OFFSET_LINES[0],
        f"Damaged: the log of {size} bytes has no position {THIRD} ({index}, position 8, offset 1029)",
        OFFSET_LINES[1],
    ]
    assert lines(dump("--verify-index-only", times)) == [
        f"Damaged: the log of {size} bytes has no position {THIRD} ({times}, position 12, offset 1029)"
    ]
    assert dump(times).stderr.endswith("\nIndexed offset: 1019, found log offset: -1\n")


def test_what_a_truncation_left_in_a_file_that_is_not_trimmed_is_no_damage(index: Path, times: Path) -> None:
    log = LOG[:THIRD] + batch(BASE + 20, value=b"other value")
    index.with_suffix(".log").write_bytes(log)
    left = struct.pack(">iiii", 33, THIRD + 7, 49, THIRD + 100_000)
    index.write_bytes(OFFSETS + left + bytes(80))
    times.write_bytes(TIMES + struct.pack(">qiqi", 10333, 33, 10500, 49) + bytes(120))
    left_lines = [f"offset: 1033 position: {THIRD + 7}", f"offset: 1049 position: {THIRD + 100_000}"]
    remark = f"{index} has no more entries of the log as it is: the rest was left by a truncation."
    assert (lines(dump(index)), dump(index).exit_code) == ([*OFFSET_LINES, remark, *left_lines], 0)
    assert lines(dump("--verify-index-only", index)) == [remark]
    objects = [json.loads(line) for line in dump("--jsonl", index).stdout.splitlines()[1:]]
    assert [each["type"] for each in objects] == ["indexEntry", "indexEntry", "stale", "indexEntry", "indexEntry"]
    told = dump(times)
    assert (len(lines(told)), told.exit_code) == (4, 0)
    assert told.stderr.splitlines() == [
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 1033, found log offset: -1",
        "Indexed offset: 1049, found log offset: -1",
    ]
    index.write_bytes(OFFSETS + left)  # a closed segment's, where a broker would read it
    assert (lines(dump(index))[2].startswith("Damaged: "), dump(index).exit_code) == (True, 1)
    index.write_bytes(struct.pack(">ii", 9, 5) + OFFSETS + bytes(80))  # a wrong entry among right ones
    assert (lines(dump(index))[0].startswith("Damaged: "), dump(index).exit_code) == (True, 1)


def test_a_damaged_batch_is_said_with_its_own_place(index: Path, times: Path) -> None:
    log = bytearray(LOG)
    log[SECOND + 61 + 20] ^= 255
    index.with_suffix(".log").write_bytes(log)
    damage, *entries = lines(dump(times))
    assert damage.startswith("Damaged: ")
    assert damage.endswith(f" ({index.with_suffix('.log')}, position {SECOND}, offset 1010)")
    assert entries == TIME_LINES
    assert lines(dump(index)) == OFFSET_LINES  # for which only headers are looked at
    first, second = (json.loads(line) for line in dump("--jsonl", times).stdout.splitlines()[1:3])
    assert (first["type"], first["path"], first["position"]) == ("damage", str(index.with_suffix(".log")), SECOND)
    assert second == {"type": "timeIndexEntry", "timestamp": 10200, "offset": 1019}


def test_a_batch_above_the_limit_is_damage(index: Path, times: Path) -> None:
    index.write_bytes(struct.pack(">ii", 9, 0))
    times.write_bytes(struct.pack(">qi", 10100, 9))
    index.with_suffix(".log").write_bytes(batch(BASE, codec=GZIP, value=bytes(10**5)))
    result = dump("--limit-bytes", 10**5, times)
    assert (len(lines(result)), result.exit_code) == (2, 1)
    assert (dump(times).exit_code, dump("--limit-bytes", 10**5, index).exit_code) == (0, 0)
    index.with_suffix(".log").write_bytes(batch(BASE, value=bytes(10**5)))
    result = dump("--limit-bytes", 10**5, index)
    assert (len(lines(result)), result.exit_code) == (2, 1)
    assert (dump(times).exit_code, dump(index).exit_code) == (0, 0)


@pytest.mark.parametrize("state", [".deleted", ".cleaned", ".swap"])
def test_files_renamed_for_later_are_compared_among_themselves(index: Path, times: Path, state: str) -> None:
    renamed = [path.rename(f"{path}{state}") for path in (index, times, index.with_suffix(".log"))]
    index.with_suffix(".log").write_bytes(b"")
    for path, entries in zip(renamed, (OFFSET_LINES, TIME_LINES), strict=False):
        result = dump(path)
        assert (lines(result), result.stderr, result.exit_code) == (entries, "", 0)


@pytest.mark.parametrize("log", [b"", bytes(4096)], ids=["empty", "preallocated"])
def test_a_preallocated_index_without_entries_is_no_damage(index: Path, times: Path, log: bytes) -> None:
    index.with_suffix(".log").write_bytes(log)
    index.write_bytes(bytes(8000))
    times.write_bytes(bytes(12000))
    result = dump(index)
    assert lines(result) == [f"{index} has no entries yet: its slots are not used."]
    assert (result.stderr, result.exit_code) == ("", 0)
    assert json.loads(dump("--jsonl", index).stdout.splitlines()[1]) == {"type": "unused", "path": str(index)}
    if log:
        assert lines(dump(times)) == [f"{times} has no entries yet: its slots are not used."]
    else:  # which the real tool survives
        assert lines(dump(times)) == ["timestamp: 0 offset: 1000"]
    assert dump(times).exit_code == 0


def test_zeros_in_front_of_entries_are_an_entry(index: Path, times: Path) -> None:
    index.with_suffix(".log").write_bytes(bytes(4096))
    index.write_bytes(bytes(8) + OFFSETS)
    times.write_bytes(bytes(12) + TIMES)
    expected = {index: ["offset: 1000 position: 0", *OFFSET_LINES], times: ["timestamp: 0 offset: 1000", *TIME_LINES]}
    for path, entries in expected.items():
        result = dump(path)
        assert lines(result)[0].startswith("Damaged: the batch length 0 ")
        assert [line for line in lines(result) if not line.startswith("Damaged: ")] == entries
        assert result.exit_code == 1


def test_bytes_after_the_last_entry_are_reported_on_standard_error(index: Path, times: Path) -> None:
    index.write_bytes(OFFSETS + b"abc")
    times.write_bytes(TIMES + bytes(11))
    for path, entries, size in ((index, OFFSET_LINES, 3), (times, TIME_LINES, 11)):
        result = dump(path)
        assert (lines(result), result.exit_code) == (entries, 1)
        assert result.stderr == f"Found {size} bytes after the last entry of {path}\n"


def test_kafkas_check(index: Path, times: Path) -> None:
    check = "--index-sanity-check"
    assert lines(dump(check, index)) == [f"{index} passed sanity check."]
    assert lines(dump(check, times)) == [f"{times} passed sanity check."]
    assert json.loads(dump(check, "--jsonl", times).stdout.splitlines()[1]) == {"type": "sane", "path": str(times)}
    index.write_bytes(OFFSETS + struct.pack(">ii", -1, 0))
    times.write_bytes(TIMES + bytes(240))
    assert lines(dump(check, index)) == [
        f"Damaged: the last offset is below the base offset {BASE} ({index}, position 16, offset 999)"
    ]
    assert lines(dump(check, times)) == [
        f"Damaged: the time index was not trimmed: 20 slots after its 2 entries are not used ({times})"
    ]
    assert (dump(check, index).exit_code, dump(check, times).exit_code) == (1, 1)


def test_an_empty_offset_index_is_said_to_be_empty_and_a_time_index_is_not(index: Path, times: Path) -> None:
    index.write_bytes(b"")
    times.write_bytes(b"")
    for option in ("--no-data", "--verify-index-only", "--index-sanity-check"):
        assert lines(dump(option, index)) == [f"{index} is empty."]
    assert (lines(dump(times)), dump(times).exit_code) == ([], 0)
    assert json.loads(dump("--jsonl", index).stdout.splitlines()[1]) == {"type": "empty", "path": str(index)}


def test_nothing_is_changed(index: Path) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in index.parent.iterdir()}

    before = state()
    dump(*index.parent.iterdir())
    assert state() == before


@pytest.mark.parametrize("seed", range(50))
def test_no_damage_ends_in_a_traceback(index: Path, times: Path, seed: int) -> None:
    rng = random.Random(seed)
    for path in (index, times, index.with_suffix(".log")):
        if rng.random() < 0.7:
            path.write_bytes(mutate(rng, path.read_bytes()))
    for option in ("--jsonl", "--verify-index-only", "--index-sanity-check"):
        assert dump(option, index, times).exit_code in (0, 1)


def test_a_name_without_the_base_offset_is_not_looked_at(index: Path) -> None:
    path = index.rename(index.with_name("orders.index"))
    result = dump(path)
    assert (result.stdout, result.exit_code) == ("", 2)
    assert result.stderr == f"kafkafs: {path}: an index's name begins with the base offset of its segment\n"


def test_of_very_many_mismatches_the_last_are_kept() -> None:
    for last_first, shown in ((False, ["2 of 1", "3 of 1"]), (True, [f"{KEPT + 1} of 1", f"{KEPT} of 1"])):
        mismatches = Mismatches("Mismatches", "{} of {}", last_first=last_first)
        assert list(mismatches.report()) == []
        for said in range(KEPT + 2):
            mismatches.add(said, 1)
        heading, *rows, more = mismatches.report()
        assert (heading, rows[:2], len(rows), more) == ("Mismatches", shown, KEPT, "  and 2 more before these")


def test_what_was_scanned_before_changes_no_answer(tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.log"
    firsts = range(0, 400, 10)
    encoded = [batch(first) for first in firsts]
    path.write_bytes(b"".join(encoded))
    positions = [sum(map(len, encoded[:number])) for number in range(len(encoded))]
    rng = random.Random(1)
    with Files().open_reading(path) as file:
        log = LogBeside(file, limit_bytes=LIMIT_BYTES)
        for _ in range(2000):
            offset, number = rng.randrange(420), rng.randrange(len(encoded))
            found = log.batch_reaching(offset, positions[number])
            expected = [first for first in firsts[number:] if first + 9 >= offset]
            assert (None if found is None else found.base_offset) == (expected[0] if expected else None)
        with pytest.raises(CorruptIndexError):
            log.batch_reaching(0, -1)


def test_a_changed_last_entry_is_damage_where_no_leader_has_begun_in_the_segment(index: Path) -> None:
    index.with_suffix(".log").write_bytes(LOG)
    index.write_bytes(OFFSETS[:8] + struct.pack(">ii", 29, THIRD ^ 1) + bytes(80))
    epochs = index.parent / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n0 0\n")
    damaged = dump(index)
    assert (lines(damaged)[1].startswith("Damaged: "), damaged.exit_code) == (True, 1)
    for text in (f"0\n2\n0 0\n1 {BASE}\n", "what?"):  # one may have begun there, or that is not known
        epochs.write_text(text)
        assert dump(index).exit_code == 0
    epochs.unlink()
    assert dump(index).exit_code == 0
    epochs.write_text("0\n1\n0 0\n")
    left = struct.pack(">ii", 49, len(LOG) + 500)  # the log may have been truncated where it ends
    index.write_bytes(OFFSETS + left + bytes(80))
    assert dump(index).exit_code == 0
