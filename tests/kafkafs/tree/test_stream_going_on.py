"""A reader at a stream's end goes on there when the log loses its beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, LogOnMemory, sent

from kafkafs.content import SizeCache
from kafkafs.content.held_files import HeldFiles
from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import View
from kafkafs.tree.errors import DamagedError, GoneError
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.stream_file import StreamFile
from storage.log.view import Isolation

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.log_source import LogSource


def append(lab: LogOnMemory, *values: bytes, epoch: int = 1) -> None:
    for value in values:
        lab.log.append_as_leader(sent([(0, value)]), leader_epoch=epoch)


def remove(lab: LogOnMemory, base_offset: int) -> None:
    """Remove the segments before the offset, files and all."""
    for name in lab.log.remove_before(base_offset):
        lab.log.directory.remove(name)
    lab.run_tasks()


def stream(source: LogSource, sizes: SizeCache) -> StreamFile:
    return StreamFile(PartitionFilePath(source.path, View.VALUES), source, sizes)


@pytest.fixture(params=[False, True], ids=["written", "followed"])
def log(request: pytest.FixtureRequest, views: Views) -> tuple[LogOnMemory, LogSource, SizeCache]:
    lab = LogOnMemory()
    append(lab, *[b"%d" % number for number in range(10)])
    source = views.memory(lab, is_followed=request.param)
    return lab, source, SizeCache(source.files, None)


def test_a_start_that_moves_is_another_identity_of_the_same_lineage(
    log: tuple[LogOnMemory, LogSource, SizeCache],
) -> None:
    lab, source, sizes = log
    opened = stream(source, sizes)
    reading = opened.open()
    assert reading.size_bytes() == 20
    lab.log.advance_start(4)
    source.log.checkpointed_start = 4  # type: ignore[union-attr]
    append(lab, b"ten")
    now = stream(source, sizes)
    assert (now.identity != opened.identity, now.lineage) == (True, opened.lineage)
    assert (reading.size_bytes(), now.open().size_bytes()) == (24, 16)
    assert bytes(reading.read(20, 100)) == b"ten\n"


def test_segments_that_go_as_soon_as_they_are_read_leave_no_gap(log: tuple[LogOnMemory, LogSource, SizeCache]) -> None:
    lab, source, sizes = log
    opened = stream(source, sizes)
    reading, position = opened.open(), 20
    assert reading.size_bytes() == position
    for number in range(3):
        base_offset = lab.log.view.end_offset
        lab.log.roll()
        append(lab, b"more %d" % number)
        lab.log.remove_before(base_offset)  # before anybody has seen both segments
        lab.run_tasks()
        assert reading.size_bytes() == position + 7
        assert bytes(reading.read(position, 100)) == b"more %d\n" % number
        position += 7
        assert stream(source, sizes).lineage == opened.lineage
    assert bytes(reading.read(0, position)) == b"".join(b"%d\n" % number for number in range(10)) + b"".join(
        b"more %d\n" % number for number in range(3)
    ), "what was removed is held for those who have it open"
    reading.close()


def test_what_went_unread_is_not_passed_over(
    log: tuple[LogOnMemory, LogSource, SizeCache], caplog: pytest.LogCaptureFixture
) -> None:
    lab, source, sizes = log
    opened = stream(source, sizes)
    reading = opened.open()
    assert reading.size_bytes() == 20
    append(lab, b"held")
    lab.log.roll()
    append(lab, b"nobody has seen this")
    base_offset = lab.log.view.end_offset
    lab.log.roll()
    append(lab, b"rest")
    remove(lab, base_offset)
    assert reading.size_bytes() == 25 + 1 + 5, "a hole of a byte, so that who waits at the end asks for what is there"
    assert bytes(reading.read(20, 5)) == b"held\n"
    with pytest.raises(GoneError):
        reading.read(25, 100)
    assert bytes(reading.read(26, 100)) == b"rest\n"
    assert "records were removed unread: offset 11" in caplog.text
    assert stream(source, sizes).lineage != opened.lineage


def test_what_takes_the_place_of_what_was_cut_off_is_another_lineage_and_follows_for_those_who_read_it(
    log: tuple[LogOnMemory, LogSource, SizeCache], caplog: pytest.LogCaptureFixture
) -> None:
    lab, source, sizes = log
    opened = stream(source, sizes)
    reading = opened.open()
    assert reading.size_bytes() == 20
    lab.log.truncate_to(5)
    append(lab, *[b"x"] * 5, epoch=2)
    now = stream(source, sizes)
    assert now.lineage != opened.lineage
    assert now.open().size_bytes() == 20
    assert reading.size_bytes() == 30
    assert bytes(reading.read(20, 100)) == b"x\n" * 5
    assert bytes(reading.read(0, 10)) == b"0\n1\n2\n3\n4\n", "what was not cut off is still there"
    with pytest.raises(GoneError):
        reading.read(10, 10)
    assert caplog.text.count("was truncated") == 1
    append(lab, b"later", epoch=2)
    assert reading.size_bytes() == 36
    assert bytes(reading.read(30, 100)) == b"later\n"


def test_a_size_that_was_known_never_becomes_less(views: Views) -> None:
    lab = LogOnMemory()
    append(lab, b"first")
    source = views.memory(lab, TreeOptions(counted_bytes_max=1000))
    sizes = SizeCache(source.files, None)
    reading = stream(source, sizes).open()
    assert reading.size_bytes() == 6
    append(lab, *[b"v" * 99] * 50)  # more than is counted at once
    found = reading.size_bytes()
    assert found is not None
    assert found >= 6
    while found != 6 + 50 * 100:
        later = reading.size_bytes()
        assert later is not None
        assert later >= found
        found = later
    sizes.close()


def test_damage_that_comes_to_what_is_open_is_told(views: Views) -> None:
    lab = LogOnMemory()
    append(lab, b"first")
    source = views.memory(lab, is_followed=True)
    reading = stream(source, SizeCache(source.files, None)).open()
    assert reading.size_bytes() == 6
    path = f"{DIRECTORY}/{0:020d}.log"
    end = len(lab.files.read(path))
    append(lab, b"second", b"third")
    with lab.files.open_writing(path) as file:
        file.write_at(end + 70, [b"\xff"])
    with pytest.raises(DamagedError):
        reading.size_bytes()
    assert bytes(reading.read(0, 100)) == b"first\n"
    with pytest.raises(DamagedError):
        reading.read(6, 100)


def test_the_page_in_which_the_rest_begins_can_be_read(views: Views) -> None:
    """The kernel asks for whole pages, though who waits at the end wants nothing of what was removed."""
    lab = LogOnMemory()
    append(lab, *[b"%050d" % number for number in range(100)])
    source = views.memory(lab, is_followed=True)
    sizes = SizeCache(source.files, None, held=HeldFiles(removed_bytes_max=0))
    whole = b"".join((value or b"") + b"\n" for value in lab.values())
    reading = stream(source, sizes).open()
    for _ in range(2):
        assert reading.size_bytes() == len(whole)
    base_offset = lab.log.view.end_offset
    lab.log.roll()
    append(lab, *[b"v" * 400] * 100)  # more than is kept of what others read
    remove(lab, base_offset)
    grown = reading.size_bytes()
    assert grown == len(whole) + 401 * 100
    page = len(whole) // 4096 * 4096
    assert bytes(reading.read(page, grown)) == (whole + (b"v" * 400 + b"\n") * 100)[page:]
    for position in (0, page - 1, page + 1):
        with pytest.raises(GoneError):
            reading.read(position, 8192)


@pytest.mark.parametrize("is_followed", [False, True])
def test_what_was_begun_before_the_log_grew_gives_no_less_than_its_size(views: Views, *, is_followed: bool) -> None:
    lab = LogOnMemory({"segment.bytes": str(1 << 26)})
    append(lab, *[bytes(100_000)] * 80)
    source = views.memory(lab, is_followed=is_followed)
    reading = stream(source, SizeCache(source.files, None)).open()
    size = reading.size_bytes()
    assert size == 80 * 100_001
    assert memoryview(reading.read(0, 4096)).nbytes == 4096  # and some more of it is made
    append(lab, b"later")
    assert reading.size_bytes() == size + 6
    assert memoryview(reading.read(4096, size)).nbytes == size + 6 - 4096


@pytest.mark.parametrize("is_followed", [False, True], ids=["written", "followed"])
@pytest.mark.parametrize("is_lagging", [False, True])
def test_what_is_aborted_stays_hidden_in_removed_segments(views: Views, *, is_followed: bool, is_lagging: bool) -> None:
    lab = LogOnMemory()

    def transactions(first: int, last: int) -> bytes:
        """Transactions, one in two of them aborted, each in a segment and its marker in the next."""
        for number in range(first, last):
            lab.produce(b"%d" % number, number, transactional=True)
            lab.log.roll()
            lab.end_transaction(committed=number % 2 == 0)
        return b"".join(b"%d\n" % number for number in range(first, last) if number % 2 == 0)

    committed = transactions(0, 6)
    source = views.memory(lab, TreeOptions(isolation=Isolation.COMMITTED), is_followed=is_followed)
    reading = stream(source, SizeCache(source.files, None)).open()
    assert reading.size_bytes() == len(committed)
    if not is_lagging:
        assert bytes(reading.read(0, 100)) == committed
    committed += transactions(6, 12)
    assert reading.size_bytes() == len(committed)
    remove(lab, lab.log.view.segments[-1].base_offset)
    committed += transactions(12, 14)
    assert reading.size_bytes() == len(committed)
    assert bytes(reading.read(0, 100)) == committed
    reading.close()
