"""Segments with more offsets than an index can tell, as old brokers and cleaners left them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, SETTINGS, LogOnMemory

from storage.errors import OffsetOutOfRangeError, TooManySegmentsError
from storage.log.recover.report import Repair
from storage.segment import names
from storage.segment.names import FileName, FileSuffix, Kind, parse_name
from storage.segment.segment import Segment
from storage.segment.splitting import split_segment
from storage.testing.codec import GZIP, OracleRecord, batch_of, encode_batch, encode_entry, entry_of, wrapper_of
from storage.testing.faults import Cut, CutError, Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from storage.testing.memory_files import MemoryFiles

RANGE = 2**31 - 1
BASE = 10
OFFSETS = (10, 11, BASE + RANGE, BASE + RANGE + 1, BASE + RANGE + 2, 3 * RANGE, 3 * RANGE + 7, 9 * RANGE)
BASES = (BASE, BASE + RANGE + 1, 3 * RANGE, 9 * RANGE)
"""Where segments have to begin: at the first offset that is too far from the base before it."""


def record(offset: int) -> OracleRecord:
    return OracleRecord(offset, NOW_MS, b"k", b"%d" % offset)


def new_batch(offset: int) -> bytes:
    return encode_batch(batch_of([record(offset)], producer_id=7, producer_epoch=0, base_sequence=offset % 1000))


def old_batch(offset: int) -> bytes:
    return encode_entry(entry_of(record(offset), 1))


def lying_batch(*offsets: int) -> bytes:
    """Make a compressed batch of these offsets whose header has another last one, far from them."""
    return encode_entry(replace(wrapper_of([record(offset) for offset in offsets], 0, GZIP), offset=9 * RANGE))


def put(files: MemoryFiles, name: FileName, data: bytes) -> None:
    with files.open_writing(f"{DIRECTORY}/{name}", create=True) as file:
        file.write_at(0, [data])
        file.sync()
    files.sync_directory(DIRECTORY)


def segment_of(batches: Iterable[bytes]) -> LogOnMemory:
    """A log whose one segment has these batches, and indexes that mean nothing."""
    lab = LogOnMemory({**SETTINGS, "index.interval.bytes": "0"})
    lab.log.close()
    for name in lab.files.names(DIRECTORY):
        lab.files.remove(f"{DIRECTORY}/{name}")
    put(lab.files, FileName(BASE, Kind.LOG), b"".join(batches))
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        put(lab.files, FileName(BASE, kind), b"\xff" * 24)
    return lab


def bases_of(files: MemoryFiles) -> tuple[int, ...]:
    names = (parse_name(text) for text in files.names(DIRECTORY))
    return tuple(sorted(name.offset for name in names if name is not None and name.kind is Kind.LOG))


@pytest.mark.parametrize("make", [new_batch, old_batch], ids=["new", "old"])
def test_the_parts_hold_every_byte_and_no_index(make: Callable[[int], bytes]) -> None:
    lab = segment_of(map(make, OFFSETS))
    before = lab.files.read(f"{DIRECTORY}/{FileName(BASE, Kind.LOG)}")
    assert split_segment(lab.files.directory(DIRECTORY), BASE) == list(BASES)
    contents = lab.contents()
    assert set(contents) == {str(FileName(base, Kind.LOG)) for base in BASES}
    assert b"".join(contents[name] for name in sorted(contents)) == before


def test_a_batch_of_an_old_version_begins_at_its_first_record() -> None:
    wrapper = encode_entry(wrapper_of([record(RANGE + 5), record(RANGE + BASE + 1)], 1, GZIP))
    lab = segment_of([old_batch(BASE), wrapper])
    assert split_segment(lab.files.directory(DIRECTORY), BASE) == [BASE, RANGE + 5]


def test_one_that_cannot_be_decompressed_begins_at_its_end() -> None:
    wrapper = wrapper_of([record(RANGE + 5), record(RANGE + BASE + 1)], 1, GZIP)
    broken = encode_entry(type(wrapper)(offset=wrapper.offset, magic=1, attributes=GZIP, timestamp=1, value=b"no gzip"))
    lab = segment_of([old_batch(BASE), broken])
    assert split_segment(lab.files.directory(DIRECTORY), BASE) == [BASE, RANGE + BASE + 1]


def test_bytes_that_are_no_batch_stay_at_the_end() -> None:
    lab = segment_of([*map(new_batch, OFFSETS), b"\0" * 50])
    assert split_segment(lab.files.directory(DIRECTORY), BASE) == list(BASES)
    assert lab.contents()[str(FileName(BASES[-1], Kind.LOG))] == new_batch(OFFSETS[-1]) + b"\0" * 50


def test_what_an_earlier_attempt_has_left_is_written_over() -> None:
    lab = segment_of(map(new_batch, OFFSETS))
    put(lab.files, FileName(BASE, Kind.LOG, FileSuffix.CLEANED), b"\xff" * 10_000)
    split_segment(lab.files.directory(DIRECTORY), BASE)
    assert lab.contents()[str(FileName(BASE, Kind.LOG))] == b"".join(map(new_batch, OFFSETS[:3]))


@pytest.mark.parametrize("make", [new_batch, old_batch], ids=["new", "old"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "crashed"])
def test_recovery_makes_segments_of_it_that_can_be_used(make: Callable[[int], bytes], *, is_clean: bool) -> None:
    lab = segment_of(map(make, OFFSETS))
    if is_clean:  # only a log without indexes is looked at
        lab.files.remove(f"{DIRECTORY}/{FileName(BASE, Kind.OFFSET_INDEX)}")
    report = lab.recover(is_clean=is_clean)
    assert report.steps[0].repair is Repair.SPLIT
    assert f"now {len(BASES)} segments" in report.steps[0].reason
    assert (report.lost_bytes, report.start_offset, report.end_offset) == (0, BASE, OFFSETS[-1] + 1)
    assert bases_of(lab.files) == BASES
    for base, following in zip(BASES, (*BASES[1:], OFFSETS[-1] + 1), strict=True):
        segment = Segment(lab.files.directory(DIRECTORY), base)
        offsets = [batch.last_offset for batch in segment.batches()]
        assert offsets == [offset for offset in OFFSETS if base <= offset < following]
        assert [entry.offset for entry in segment.offset_index] == offsets[1:]
        assert segment.largest_timestamp == (NOW_MS, offsets[0])
        segment.offset_index.check()
        segment.time_index.check()
        segment.unload()
    log = lab.open()
    assert lab.values() == [b"%d" % offset for offset in OFFSETS]
    for offset in OFFSETS:
        found = log.view.find(offset)
        assert found is not None
        assert found.last_offset == offset
    with pytest.raises(OffsetOutOfRangeError):
        log.read(OFFSETS[-1] + 2)
    assert lab.log.append_as_leader(encode_batch(batch_of([OracleRecord(0, NOW_MS, b"k", b"on")]))).first_offset == (
        OFFSETS[-1] + 1
    )
    log.close()
    assert lab.recover(is_clean=True, start_offset=BASE).steps == []


def test_what_producers_did_is_known_at_each_part() -> None:
    lab = segment_of(map(new_batch, OFFSETS))
    lab.recover()
    snapshots = sorted(name for name in lab.files.names(DIRECTORY) if name.endswith(Kind.SNAPSHOT))
    assert snapshots == [str(FileName(base, Kind.SNAPSHOT)) for base in (*BASES[1:], OFFSETS[-1] + 1)]
    (state,) = lab.open().producers.states()
    assert (state.producer_id, state.last_sequence) == (7, OFFSETS[-1] % 1000)


def test_offsets_may_be_missing_between_the_parts_alone() -> None:
    offsets = (BASE, BASE + 1, BASE + RANGE + 1, BASE + RANGE + 2)
    lab = segment_of(map(new_batch, offsets))
    assert lab.recover().lost_bytes == 0
    assert bases_of(lab.files) == (BASE, BASE + RANGE + 1)
    lab.open()
    assert lab.values() == [b"%d" % offset for offset in offsets]


def test_segments_behind_it_stay() -> None:
    lab = segment_of(map(new_batch, OFFSETS))
    following = OFFSETS[-1] + 1
    put(lab.files, FileName(following, Kind.LOG), new_batch(following) + new_batch(following + 1))
    report = lab.recover()
    assert report.end_offset == following + 2
    assert bases_of(lab.files) == (*BASES, following)
    lab.open()
    assert lab.values() == [b"%d" % offset for offset in (*OFFSETS, following, following + 1)]


@pytest.mark.parametrize("inner", [(0, 1), (BASE, BASE + 1), (BASE + 2, BASE + 3)], ids=["before", "same", "wide"])
def test_a_batch_whose_header_contradicts_its_records_is_cut_and_nothing_else(inner: tuple[int, int]) -> None:
    """Its header says that it needs a segment of its own, and its records would begin that one where another is."""
    lying = lying_batch(*inner)
    before = [new_batch(BASE), new_batch(BASE + 1)]
    lab = segment_of([*before, lying])
    report = lab.recover()
    assert (report.steps[0].repair, report.lost_bytes) == (Repair.CUT, len(lying))
    assert bases_of(lab.files) == (BASE,)
    assert lab.contents()[str(FileName(BASE, Kind.LOG))] == b"".join(before)


def test_a_later_batch_that_contradicts_its_records_stays_with_the_last_part() -> None:
    lying = lying_batch(BASE, BASE + 1)
    sound = [new_batch(BASE), new_batch(3 * RANGE)]
    lab = segment_of([*sound, lying])
    report = lab.recover()
    assert report.lost_bytes == len(lying)
    assert bases_of(lab.files) == (BASE, 3 * RANGE)
    assert [lab.contents()[str(FileName(base, Kind.LOG))] for base in bases_of(lab.files)] == sound


def test_a_segment_is_not_split_into_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = segment_of(map(new_batch, OFFSETS))
    monkeypatch.setattr(names, "SEGMENTS_MAX", len(BASES) - 1)
    with pytest.raises(TooManySegmentsError, match=f"the segment at {BASE} has offsets for {len(BASES)} segments"):
        lab.recover()
    assert bases_of(lab.files) == (BASE,)
    assert lab.contents()[str(FileName(BASE, Kind.LOG))] == b"".join(map(new_batch, OFFSETS))


def test_two_of_them_are_both_split() -> None:
    lab = segment_of(map(new_batch, OFFSETS))
    following = OFFSETS[-1] + 1
    put(lab.files, FileName(following, Kind.LOG), new_batch(following) + new_batch(following + RANGE + 1))
    report = lab.recover()
    assert [step.repair for step in report.steps if step.repair is Repair.SPLIT] == [Repair.SPLIT, Repair.SPLIT]
    assert bases_of(lab.files) == (*BASES, following, following + RANGE + 1)
    assert report.scanned_segments == len(BASES) + 2  # each part is read once
    lab.open()
    assert len(lab.values()) == len(OFFSETS) + 2


def test_a_crash_anywhere_loses_nothing() -> None:
    whole = segment_of(map(new_batch, OFFSETS))
    first = whole.files.steps
    whole.recover()
    expected = {name: data for name, data in whole.contents().items() if name.endswith(Kind.LOG)}
    for step in range(first, whole.files.steps):
        for seed in range(3):
            lab = segment_of(map(new_batch, OFFSETS))
            lab.files.cut = Cut(step, Effect.DEATH, seed=step)
            with pytest.raises(CutError):
                lab.recover()
            files = lab.files.after_power_loss(seed) if seed else lab.files.after_process_death()
            lab.open_after_crash(files)
            assert lab.values() == [b"%d" % offset for offset in OFFSETS]
            assert {name: data for name, data in lab.contents().items() if name.endswith(Kind.LOG)} == expected


@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "crashed"])
@pytest.mark.parametrize("following", [BASE + 3 * RANGE, BASE + 2 * RANGE], ids=["at the next", "beyond it"])
def test_a_part_takes_no_place_of_the_segments_that_follow(following: int, *, is_clean: bool) -> None:
    beyond = new_batch(BASE + 3 * RANGE)
    lab = segment_of([new_batch(BASE), beyond])
    real = b"".join(new_batch(following + number) for number in range(5))
    put(lab.files, FileName(following, Kind.LOG), real)
    if is_clean:
        lab.files.remove(f"{DIRECTORY}/{FileName(BASE, Kind.OFFSET_INDEX)}")
    report = lab.recover(is_clean=is_clean)
    assert Repair.SPLIT not in {step.repair for step in report.steps}
    if is_clean:  # what is trusted stays
        assert lab.contents()[str(FileName(following, Kind.LOG))] == real
        assert report.lost_bytes == 0
    else:  # what lies after damage does not, and is told
        assert bases_of(lab.files) == (BASE,)
        assert report.lost_bytes == len(beyond) + len(real)
