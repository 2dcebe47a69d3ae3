"""Of a log that takes long to decode no size is told before it was counted, and its bytes are read in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, StandingClock, sent

from kafkafs.content import SizeCache, patience, piece
from kafkafs.locator.descent import parse_path
from kafkafs.tree.damage_files import DamageDirectory, DamageFile
from kafkafs.tree.segment_files import SegmentTextFile
from kafkafs.tree.stream_file import StreamFile
from storage.record import BatchForm, Codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from conftest import Views

    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import File

    Make: TypeAlias = "Callable[[Views, LogSource, SizeCache], File]"

BATCHES = 12


class Clock:
    """A clock that goes on by some seconds whenever it is looked at."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.step_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (patience, piece):
        monkeypatch.setattr(module, "monotonic", made)
    return made


@pytest.fixture
def source(views: Views) -> LogSource:
    lab = LogOnMemory()
    for number in range(BATCHES):
        lab.log.append_as_leader(sent([(NOW_MS, b"%d" % number)], BatchForm(codec=Codec.GZIP)))
    return views.memory(lab, is_followed=True)


def at(path: str) -> Any:
    return parse_path(f"topic/0/{path}")


FILES: dict[str, Make] = {
    "records.jsonl": lambda _, source, sizes: StreamFile(at("records.jsonl"), source, sizes),
    "offset/all.jsonl": lambda views, source, _: views.node(source, "all.jsonl"),
    "segments/x.log.txt": lambda _, source, sizes: SegmentTextFile(
        at(f"segments/{source.log.view.bases[-1]:020}.log.txt"), source, sizes
    ),
    "damage.jsonl": lambda _, source, __: DamageFile(at("damage.jsonl"), source, StandingClock()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", FILES)
def test_a_size_that_takes_long_is_unknown_and_not_looked_for_again_for_a_while(
    views: Views, source: LogSource, clock: Clock, name: str
) -> None:
    sizes = SizeCache(source.files, None)

    def size_bytes() -> int | None:
        return FILES[name](views, source, sizes).attributes().size_bytes

    clock.step_s = patience.LOOK_S * 0.4
    assert size_bytes() is None
    clock.step_s = 0.0
    assert size_bytes() is None, "another question of the same program"
    clock.now_s += patience.REST_S
    told = size_bytes()
    assert told == size_bytes()
    assert told == len(b"".join(map(bytes, FILES[name](views, source, sizes).contents())))


def test_the_ranges_of_damage_that_take_long_to_find_are_not_listed(source: LogSource, clock: Clock) -> None:
    directory = DamageDirectory(at("damage"), source)
    clock.step_s = patience.LOOK_S * 0.4
    assert list(directory.entries()) == []
    assert source.keeps_damage, "so that the next look goes on"
    assert source.damage.unread_bytes(source.log.view) < source.log.view.end_position


@pytest.mark.parametrize("name", ["records.jsonl", "segments/x.log.txt"])
def test_bytes_that_take_long_come_in_parts(views: Views, source: LogSource, clock: Clock, name: str) -> None:
    sizes = SizeCache(source.files, None)
    expected = b"".join(map(bytes, FILES[name](views, source, sizes).contents()))
    reading: Any = FILES[name](views, source, sizes).open()
    clock.step_s = patience.READ_S
    found, parts = b"", 0
    while part := bytes(reading.read(len(found), 2 * len(expected), patience.Patience(patience.READ_S))):
        found, parts = found + part, parts + 1
    reading.close()
    assert found == expected
    assert parts > 1


def test_who_asks_for_a_dump_while_others_count_it_is_told_that_it_is_unknown(source: LogSource) -> None:
    path = f"{DIRECTORY}/{source.log.view.bases[-1]:020}.log"
    text = SizeCache(source.files, None).text(source.files, path, 0)  # type: ignore[arg-type]
    status = source.files.status(path)
    assert status is not None
    with source.files.open_reading(path) as file:
        counted = text.look(file, status)
        asked: list[int | None] = []

        def other() -> bool:
            if not asked:
                assert text.look(file, status) is counted
                asked.append(text.size_bytes(counted, file, status, wait_s=0))
            return False

        assert text.size_bytes(counted, file, status, other) == text.size_bytes(counted, file, status)
    assert asked == [None]


def test_the_rest_of_a_closed_segment_whose_damage_took_long_to_find_is_still_to_be_read(
    source: LogSource, clock: Clock
) -> None:
    directory = source.files.directory(DIRECTORY)
    directory.open_writing(f"{source.log.view.end_offset:020}.log", create=True).close()
    view = source.log.view
    clock.step_s = patience.LOOK_S * 0.4
    assert not source.damage.look(view)
    assert 0 < source.damage.unread_bytes(view) < view.segments[0].size_bytes
    clock.step_s = 0.0
    clock.now_s += patience.REST_S
    assert source.damage.look(view)
    assert source.damage.unread_bytes(view) == 0
