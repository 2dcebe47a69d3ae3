"""Replacing segments: what a crash leaves on the way becomes the old segments or the new ones, and nothing else."""

from __future__ import annotations

import pytest

from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind, parse_name
from storage.segment.replacement import finish_replacements, replace_segments
from storage.segment.segment import Segment
from storage.testing.codec import OracleRecord, batch_of, encode_batch
from storage.testing.faults import Cut, CutError, Effect
from storage.testing.memory_files import MemoryFiles

DIRECTORY = "/p"
OLD, NEW = b"old", b"new"


def log_of(*offsets: int) -> bytes:
    return b"".join(encode_batch(batch_of([OracleRecord(offset, 1000, value=b"v")])) for offset in offsets)


class Bench:
    """A directory, with the files that it is said to have."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_directory(DIRECTORY)
        self.files.sync_directory("/")

    def put(self, offset: int, kind: Kind, data: bytes, suffix: FileSuffix = FileSuffix.LIVE) -> None:
        with self.files.open_writing(f"{DIRECTORY}/{FileName(offset, kind, suffix)}", create=True) as file:
            file.write_at(0, [data])
            file.sync()
        self.files.sync_directory(DIRECTORY)

    def put_segment(
        self,
        offset: int,
        log: bytes,
        mark: bytes,
        suffix: FileSuffix = FileSuffix.LIVE,
        *kinds: Kind,
        but: tuple[Kind, ...] = (),
    ) -> None:
        for kind in kinds or SEGMENT_KINDS:
            if kind not in but:
                self.put(offset, kind, log if kind is Kind.LOG else mark, suffix)

    def names(self) -> set[str]:
        return set(self.files.names(DIRECTORY))

    def contents(self) -> dict[str, bytes]:
        return {name: self.files.read(f"{DIRECTORY}/{name}") for name in self.names()}

    def replace(self, new: tuple[int, ...], old: tuple[int, ...]) -> None:
        segments = [Segment(self.files.directory(DIRECTORY), base_offset) for base_offset in old]
        for name in replace_segments(self.files.directory(DIRECTORY), new, segments):
            self.files.directory(DIRECTORY).remove(name)

    def finish(self) -> list[tuple[str, str | None]]:
        """What is done; done once more, nothing is."""
        done = [
            (tidied.name, tidied.became)
            for tidied in finish_replacements(self.files.directory(DIRECTORY), self.files.names(DIRECTORY))
        ]
        assert finish_replacements(self.files.directory(DIRECTORY), self.files.names(DIRECTORY)) == []
        return done


def named(offset: int, suffix: FileSuffix = FileSuffix.LIVE, *kinds: Kind) -> set[str]:
    return {str(FileName(offset, kind, suffix)) for kind in kinds or SEGMENT_KINDS}


def test_a_directory_without_a_crash_is_left_alone() -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0, 1), OLD)
    bench.put(2, Kind.SNAPSHOT, b"snapshot")
    before, steps = bench.contents(), bench.files.steps
    assert bench.finish() == []
    assert (bench.contents(), bench.files.steps) == (before, steps)


def test_what_was_about_to_be_removed_is() -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0), OLD, FileSuffix.DELETED)
    bench.put(5, Kind.SNAPSHOT, b"snapshot", FileSuffix.DELETED)
    bench.put_segment(5, log_of(5), OLD)
    assert {name for name, became in bench.finish() if became is None} == named(0, FileSuffix.DELETED) | named(
        5, FileSuffix.DELETED, Kind.SNAPSHOT
    )
    assert bench.names() == named(5)


def test_one_that_is_not_complete_is_void() -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0, 1, 2), OLD)
    bench.put_segment(0, log_of(0, 2), NEW, FileSuffix.CLEANED)
    before = {name: data for name, data in bench.contents().items() if not name.endswith(FileSuffix.CLEANED)}
    assert {became for _, became in bench.finish()} == {None}
    assert bench.contents() == before


def test_an_index_alone_that_is_being_rebuilt_is_void() -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0), OLD)
    bench.put(0, Kind.TIME_INDEX, NEW, FileSuffix.CLEANED)
    assert bench.finish() == [(str(FileName(0, Kind.TIME_INDEX, FileSuffix.CLEANED)), None)]
    assert bench.names() == named(0)


def test_a_swap_at_or_above_the_lowest_cleaned_is_void_and_one_below_is_of_another_replacement() -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0, 3), NEW, FileSuffix.SWAP)
    bench.put_segment(0, log_of(0, 1, 3), OLD)
    bench.put_segment(10, log_of(10, 12, 15), OLD)
    bench.put_segment(10, log_of(10), NEW, FileSuffix.CLEANED)
    bench.put_segment(12, log_of(12, 15), NEW, FileSuffix.SWAP)
    done = bench.finish()
    assert [name for name, became in done if became is None][:4] == sorted(
        named(12, FileSuffix.SWAP)
    )  # before the .cleaned
    assert bench.names() == named(0) | named(10)
    contents = bench.contents()
    assert contents[str(FileName(0, Kind.LOG))] == log_of(0, 3)
    assert contents[str(FileName(0, Kind.OFFSET_INDEX))] == NEW
    assert contents[str(FileName(10, Kind.LOG))] == log_of(10, 12, 15)
    assert contents[str(FileName(10, Kind.OFFSET_INDEX))] == OLD


@pytest.mark.parametrize("renamed", range(len(SEGMENT_KINDS) + 1))
def test_a_cleaned_that_was_on_its_way_to_swap_is_void_up_to_its_last_file(renamed: int) -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0, 1, 2), OLD)
    bench.put_segment(5, log_of(5), OLD)
    for index, kind in enumerate(SEGMENT_KINDS):
        state = FileSuffix.SWAP if index < renamed else FileSuffix.CLEANED
        bench.put(0, kind, log_of(0, 2) if kind is Kind.LOG else NEW, state)
    is_complete = renamed == len(SEGMENT_KINDS)
    bench.finish()
    assert bench.names() == named(0) | named(5)
    expected = (log_of(0, 2), NEW) if is_complete else (log_of(0, 1, 2), OLD)
    contents = bench.contents()
    assert (contents[str(FileName(0, Kind.LOG))], contents[str(FileName(0, Kind.TIME_INDEX))]) == expected


def test_a_complete_swap_replaces_every_segment_that_it_covers() -> None:
    bench = Bench()
    for base in (0, 3, 6):
        bench.put_segment(base, log_of(base, base + 1, base + 2), OLD)
    bench.put(3, Kind.SNAPSHOT, b"snapshot")
    bench.put_segment(0, log_of(0, 5), NEW, FileSuffix.SWAP)
    done = dict(bench.finish())
    # A snapshot in the middle of what is now one segment belongs to none.
    assert bench.names() == named(0) | named(6)
    assert done[str(FileName(0, Kind.LOG, FileSuffix.SWAP))] == str(FileName(0, Kind.LOG))
    assert done[str(FileName(3, Kind.LOG))] is None
    assert bench.contents()[str(FileName(6, Kind.TIME_INDEX))] == OLD


def test_two_new_segments_for_one_old() -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0, 1, 7, 8), OLD)
    bench.put_segment(9, log_of(9), OLD)
    bench.put_segment(0, log_of(0, 1), NEW, FileSuffix.SWAP)
    bench.put_segment(7, log_of(7, 8), NEW, FileSuffix.SWAP, Kind.LOG)
    bench.finish()
    assert bench.names() == named(0) | named(7, FileSuffix.LIVE, Kind.LOG) | named(9)
    assert bench.contents()[str(FileName(0, Kind.LOG))] == log_of(0, 1)
    assert bench.contents()[str(FileName(7, Kind.LOG))] == log_of(7, 8)


def test_indexes_that_are_left_of_a_swap_whose_log_is_in_place_take_their_places() -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0, 2), OLD, FileSuffix.LIVE, Kind.LOG)
    bench.put_segment(0, b"", NEW, FileSuffix.SWAP, Kind.OFFSET_INDEX, Kind.TIME_INDEX)
    bench.put_segment(5, log_of(5), OLD)
    bench.finish()
    assert bench.names() == named(0, FileSuffix.LIVE, Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX) | named(5)
    assert bench.contents()[str(FileName(0, Kind.TIME_INDEX))] == NEW


def test_a_swap_with_damage_in_it_replaces_what_lies_before_the_damage() -> None:
    bench = Bench()
    bench.put_segment(0, log_of(0, 1, 2), OLD)
    bench.put_segment(3, log_of(3, 4), OLD)
    bench.put_segment(0, log_of(0, 2) + b"\0" * 40, NEW, FileSuffix.SWAP, Kind.LOG)
    bench.finish()
    assert bench.names() == named(0, FileSuffix.LIVE, Kind.LOG) | named(3)


@pytest.mark.parametrize(
    ("new", "old"),
    [((0,), (0,)), ((0,), (0, 3, 6)), ((0, 3), (0,)), ((0, 6), (0, 3, 6)), ((3,), (3, 6))],
    ids=["one for one", "one for three", "two for one", "two for three", "one for two behind another"],
)
def test_a_crash_anywhere_leaves_the_old_segments_or_the_new_ones(new: tuple[int, ...], old: tuple[int, ...]) -> None:
    logs = {0: (0, 1, 2), 3: (3, 4, 5), 6: (6, 7, 8)}

    def prepared() -> Bench:
        bench = Bench()
        for base, offsets in logs.items():
            if base in old or len(new) == 1:
                bench.put_segment(base, log_of(*offsets), OLD, but=(Kind.TRANSACTION_INDEX,))
        kept = [offset for base in old for offset in logs[base] if offset % 3 != 1]
        for base in new:
            higher = [other for other in new if other > base]
            own = [o for o in kept if o >= base and (not higher or o < min(higher))] or [base]
            bench.put_segment(base, log_of(*own), NEW, FileSuffix.CLEANED, but=(Kind.TRANSACTION_INDEX,))
        return bench

    def live(bench: Bench) -> dict[str, bytes]:
        assert {name.suffix for text in bench.names() if (name := parse_name(text)) is not None} == {FileSuffix.LIVE}
        return bench.contents()

    whole = prepared()
    first = whole.files.steps
    before = {name: data for name, data in whole.contents().items() if not name.endswith(FileSuffix.CLEANED)}
    whole.replace(new, old)
    after = live(whole)
    outcomes = set()
    for step in range(first, whole.files.steps):
        for seed in range(4):
            bench = prepared()
            bench.files.cut = Cut(step, Effect.DEATH)
            with pytest.raises(CutError):
                bench.replace(new, old)
            bench.files = bench.files.after_power_loss(seed) if seed else bench.files.after_process_death()
            bench.finish()
            contents = live(bench)
            assert contents in (before, after)
            outcomes.add(contents == after)
    assert outcomes == {True, False}


def test_finishing_may_itself_be_interrupted_anywhere() -> None:
    def interrupted() -> Bench:
        bench = Bench()
        bench.put_segment(0, log_of(0, 1, 2), OLD, FileSuffix.DELETED)
        bench.put_segment(3, log_of(3, 4, 5), OLD)
        bench.put_segment(0, log_of(0, 5), NEW, FileSuffix.SWAP)
        bench.put_segment(6, log_of(6, 7, 8), OLD)
        bench.put_segment(6, log_of(6), NEW, FileSuffix.CLEANED)
        bench.put_segment(7, log_of(7, 8), NEW, FileSuffix.SWAP)
        return bench

    whole = interrupted()
    first = whole.files.steps
    whole.finish()
    expected = whole.contents()
    for step in range(first, whole.files.steps):
        for seed in range(4):
            bench = interrupted()
            bench.files.cut = Cut(step, Effect.DEATH)
            with pytest.raises(CutError):
                finish_replacements(bench.files.directory(DIRECTORY), bench.files.names(DIRECTORY))
            bench.files = bench.files.after_power_loss(seed) if seed else bench.files.after_process_death()
            bench.finish()
            assert bench.contents() == expected
