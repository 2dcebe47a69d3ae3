"""Single things that happen to a log while somebody else follows it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from storage.clock import Clock
from storage.config import TopicConfig
from storage.errors import FramingError, OffsetOutOfRangeError, UnknownPartitionError
from storage.files import Files
from storage.log.epoch_entries import EpochStart
from storage.log.followed_log import FollowedLog
from storage.log.view import Isolation
from storage.segment.index.offset import OffsetIndex
from storage.segment.index.time import TimeIndex
from storage.segment.names import FileName, FileSuffix, Kind, segments_named

if TYPE_CHECKING:
    from storage.log.view import LogView

LOG, INDEX, TIMES = Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX


def follow(lab: LogOnMemory, **more: int) -> FollowedLog:
    return FollowedLog(lab.clock, lab.files.directory(DIRECTORY), lab.config, producer_expiration_ms=10**9, **more)


def values(view: LogView) -> list[bytes | None]:
    return [record.value for batch in view.batches(view.start_offset) for record in batch.records()]


def path(base_offset: int, kind: Kind = LOG, suffix: FileSuffix = FileSuffix.LIVE) -> str:
    return f"{DIRECTORY}/{FileName(base_offset, kind, suffix)}"


def filled(count: int = 6) -> LogOnMemory:
    """A log with one record a segment."""
    lab = LogOnMemory()
    for number in range(count):
        lab.log.append_as_leader(sent([(NOW_MS + number, b"%d" % number)]), leader_epoch=2)
        lab.log.roll()
    return lab


def test_nothing_is_looked_at_before_it_is_asked_for() -> None:
    lab = filled()
    followed = FollowedLog(lab.clock, lab.files.directory("/not/there"), lab.config, producer_expiration_ms=1)
    with pytest.raises(UnknownPartitionError, match="gone"):
        _ = followed.view
    assert followed.is_poisoned is False


def test_a_directory_without_a_segment_is_an_empty_log() -> None:
    lab = LogOnMemory()
    lab.files.make_directory("/new-0")
    followed = FollowedLog(
        lab.clock, lab.files.directory("/new-0"), lab.config, start_offset=7, producer_expiration_ms=1
    )
    view = followed.view
    assert (view.start_offset, view.end_offset, view.last_stable_offset, view.bases) == (7, 7, 7, ())
    assert followed.read(7) == ([], 7, [])
    assert followed.find_timestamp(NOW_MS) is None
    assert followed.list_offset(-3) is None


def test_a_directory_that_goes_away() -> None:
    lab = filled()
    followed = follow(lab)
    kept = followed.view
    lab.files.rename(DIRECTORY, "/topic-0.0123-delete")
    for ask in (lambda: followed.view, lambda: followed.read(0), lambda: followed.producers):
        with pytest.raises(UnknownPartitionError, match="gone"):
            ask()
    assert kept.end_offset == 6
    with pytest.raises(FileNotFoundError):
        kept.read(0)
    there = FollowedLog(lab.clock, lab.files.directory("/topic-0.0123-delete"), lab.config, producer_expiration_ms=1)
    assert values(there.view) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_namesake_that_takes_its_place() -> None:
    lab = filled()
    followed = follow(lab)
    assert len(values(followed.view)) == 6
    lab.files.rename(DIRECTORY, "/gone")
    other = LogOnMemory(files=lab.files)
    other.log.append_as_leader(sent(b"other"))
    assert values(followed.view) == [b"other"]


def test_retention_moves_the_start_and_reading_goes_on() -> None:
    lab = filled()
    followed = follow(lab, recovery_point=10**6)
    before = followed.view
    for base_offset in (0, 1):
        lab.files.rename(path(base_offset), path(base_offset, suffix=FileSuffix.DELETED))
    assert values(followed.view) == [b"2", b"3", b"4", b"5"]
    with pytest.raises(OffsetOutOfRangeError, match="the log has offsets 2 to 5"):
        followed.read(1)
    with pytest.raises(FileNotFoundError):
        before.read(1)
    assert [batch.base_offset for batch in before.read(3).batches] == [3, 4, 5]


def test_a_segment_that_goes_away_between_looking_and_reading() -> None:
    lab = filled()
    followed = follow(lab)

    opened = lab.files.open_reading

    def open_reading(name: object) -> object:
        if str(name) == path(0) and lab.files.status(path(0)) is not None:
            lab.files.remove(path(0))
        return opened(name)

    view = followed.view
    lab.files.open_reading = open_reading
    with pytest.raises(OffsetOutOfRangeError):
        followed.read(0)
    assert followed.view is not view
    assert followed.view.start_offset == 1


def test_every_step_of_a_replacement() -> None:
    lab = filled()
    lab.run_tasks()
    followed = follow(lab, recovery_point=4)
    everything = [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert values(followed.view) == everything
    files = lab.files
    cleaned = files.read(path(0)) + files.read(path(2))  # of segments 0 to 2; 1 is compacted away
    steps = [
        ("write", path(0, LOG, FileSuffix.CLEANED), cleaned),
        ("write", path(0, TIMES, FileSuffix.CLEANED), TimeIndex.pack(NOW_MS + 2, 2)),
        ("rename", path(0, LOG, FileSuffix.CLEANED), path(0, LOG, FileSuffix.SWAP)),
        ("rename", path(0, TIMES, FileSuffix.CLEANED), path(0, TIMES, FileSuffix.SWAP)),
        ("rename", path(0), path(0, suffix=FileSuffix.DELETED)),
        ("rename", path(0, TIMES), path(0, TIMES, FileSuffix.DELETED)),
        ("rename", path(1), path(1, suffix=FileSuffix.DELETED)),
        ("rename", path(2), path(2, suffix=FileSuffix.DELETED)),
        ("rename", path(0, LOG, FileSuffix.SWAP), path(0)),
        ("rename", path(0, TIMES, FileSuffix.SWAP), path(0, TIMES)),
        ("remove", path(0, suffix=FileSuffix.DELETED), ""),
    ]
    for number, (what, name, more) in enumerate(steps):
        if what == "write":
            with files.open_writing(name, create=True) as file:
                file.write_at(0, [more])
        elif what == "rename":
            files.rename(name, more)
        else:
            files.remove(name)
        compacted = number >= 3
        assert values(followed.view) == ([b"0", b"2", b"3", b"4", b"5"] if compacted else everything)
        found = followed.read(1).batches[0]
        assert found.base_offset == (2 if compacted else 1)
        assert followed.find_timestamp(NOW_MS + 1) == ((2 if compacted else 1), NOW_MS + (2 if compacted else 1), 2)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([path(5), path(0), path(5, INDEX)], [(0, ""), (5, "")]),
        ([path(5, LOG, FileSuffix.DELETED), path(7, INDEX)], []),
        ([path(0), path(0, LOG, FileSuffix.CLEANED)], [(0, "")]),
        ([path(0), path(0, LOG, FileSuffix.SWAP), path(4, LOG, FileSuffix.CLEANED)], [(0, "all")]),
        ([path(0), path(4, LOG, FileSuffix.SWAP), path(4, LOG, FileSuffix.CLEANED)], [(0, "")]),
        ([path(0), path(0, INDEX, FileSuffix.SWAP)], [(0, ".index")]),
        ([path(0), path(0, INDEX), path(0, INDEX, FileSuffix.SWAP)], [(0, "")]),
        ([path(0, LOG, FileSuffix.SWAP), path(0, INDEX)], [(0, "all")]),
    ],
)
def test_what_segments_the_names_make_up(names: list[str], expected: list[tuple[int, str]]) -> None:
    found = segments_named([Path(name).name for name in names])
    shown = [(each.base_offset, "all" if each.is_swap else " ".join(sorted(each.swapped))) for each in found]
    assert shown == expected


def test_a_replacement_that_nobody_saw(tmp_path: Path) -> None:
    for number in range(3):
        log = sent([(NOW_MS, b"%d" % number)])
        (tmp_path / str(FileName(number, LOG))).write_bytes(number.to_bytes(8, "big") + log[8:])
    followed = FollowedLog(
        Clock(), Files().directory(tmp_path), TopicConfig.resolve({}), recovery_point=2, producer_expiration_ms=1
    )
    assert values(followed.view) == [b"0", b"1", b"2"]
    new = tmp_path / "new"
    new.write_bytes(sent([(NOW_MS, b"changed")]))
    new.rename(tmp_path / str(FileName(0, LOG)))
    os.utime(tmp_path, (NOW_MS, NOW_MS))  # time has passed since the last look
    assert values(followed.view) == [b"changed", b"1", b"2"]


def test_entries_that_a_truncation_left_behind_mislead_nobody() -> None:
    lab = LogOnMemory({"segment.index.bytes": "1200", "index.interval.bytes": "100"})
    for number in range(40):
        lab.log.append_as_leader(sent([(NOW_MS + 1000 * number, b"x" * 90)]))
    left = {kind: lab.files.read(path(0, kind)) for kind in (INDEX, Kind.TIME_INDEX)}
    lab.log.truncate_to(5)
    for number in range(30):
        lab.log.append_as_leader(sent([(NOW_MS + 7 * number, b"y" * (40 + number))]))
    active = lab.log.view.segments[-1]
    for kind, index in ((INDEX, active.offset_index), (Kind.TIME_INDEX, active.time_index)):
        used_bytes = index.entries_count * index.entry_bytes
        assert used_bytes < len(left[kind].rstrip(b"\0"))
        with lab.files.open_writing(path(0, kind)) as file:
            file.write_at(used_bytes, [left[kind][used_bytes:]])
    followed = follow(lab)
    assert (followed.view.end_offset, followed.view.end_position) == (35, lab.log.view.end_position)
    assert values(followed.view) == lab.values()
    for offset in range(35):
        found, expected = followed.view.find(offset), lab.log.view.find(offset)
        assert (found.base_offset, found.position) == (expected.base_offset, expected.position)
    for timestamp in range(NOW_MS - 1, NOW_MS + 5000, 50):
        assert followed.find_timestamp(timestamp) == lab.log.find_timestamp(timestamp)
    assert followed.list_offset(-3) == lab.log.list_offset(-3)


def test_entries_that_do_not_ascend_mislead_nobody() -> None:
    lab = LogOnMemory({})
    for _ in range(7):
        lab.log.append_as_leader(sent([(NOW_MS, b"a"), (NOW_MS, b"b"), (NOW_MS, b"c")]))
    third, sixth = lab.log.view.find(11).position, lab.log.view.find(20).position
    entries = [(11, third), (20, sixth), (12, sixth + 300), (16, sixth + 600)]  # the last two are left over
    with lab.files.open_writing(path(0, INDEX)) as file:
        file.write_at(0, [OffsetIndex.pack(*entry) for entry in entries])
    followed = follow(lab)
    assert followed.view.end_offset == 21
    for offset in range(21):
        assert followed.view.find(offset).base_offset == offset // 3 * 3


def test_damage_is_an_error_behind_what_is_good_and_no_end_that_grows() -> None:
    lab = LogOnMemory({})
    for number in range(4):
        lab.log.append_as_leader(sent(b"%d" % number))
    third = lab.log.view.find(2).position
    whole = lab.files.read(path(0))
    with lab.files.open_writing(path(0)) as file:
        file.write_at(third + 8, [b"\0\0\0\5"])  # a length that no batch has
    followed = follow(lab)
    view = followed.view
    assert (view.end_offset, view.end_position) == (2, third)
    assert [batch.base_offset for batch in followed.read(0).batches] == [0, 1]
    for read in (lambda: followed.read(2), lambda: values(followed.view), lambda: view.find(2)):
        with pytest.raises(FramingError) as raised:
            read()
        assert (raised.value.path, raised.value.position) == (path(0), third)
    lab.log.append_as_leader(sent(b"4"))
    assert followed.view is view
    assert view.last_stable_offset == 2
    with lab.files.open_writing(path(0)) as file:
        file.write_at(0, [whole])
    assert values(followed.view) == lab.values()


def test_damage_that_an_index_leads_around() -> None:
    lab = LogOnMemory({"index.interval.bytes": "100", "segment.index.bytes": "1200"})
    for number in range(20):
        lab.log.append_as_leader(sent(b"%d" % number * 40))
    fourth = lab.log.view.find(3).position
    with lab.files.open_writing(path(0)) as file:
        file.write_at(fourth + 8, [bytes(4)])
    followed = follow(lab)
    assert followed.view.end_offset == 20
    assert [batch.base_offset for batch in followed.read(0).batches] == [0, 1, 2]
    with pytest.raises(FramingError):
        followed.read(3)
    assert [batch.base_offset for batch in followed.read(10).batches] == list(range(10, 20))


@pytest.mark.parametrize("base_offset", [0, 3, 2**40, 2**63 - 1])
@pytest.mark.parametrize("interval_bytes", [1, 10**6])
def test_a_last_batch_whose_offset_is_damaged_does_not_hide_the_others(base_offset: int, interval_bytes: int) -> None:
    lab = LogOnMemory({"index.interval.bytes": str(interval_bytes)})
    for number in range(20):
        lab.log.append_as_leader(sent([(NOW_MS + number, b"%d" % number)]), leader_epoch=2)
    last = lab.log.view.find(19)
    assert last is not None
    with lab.files.open_writing(path(0)) as file:
        file.write_at(last.position, [base_offset.to_bytes(8, "big")])
    view = follow(lab).view
    assert view.end_offset == 20
    for offset in range(19):
        found = view.find(offset)
        assert found is not None
        assert found.base_offset == offset


def test_an_aborted_transaction_that_its_index_does_not_have_yet() -> None:
    lab = LogOnMemory()
    lab.produce(b"doomed", 0, producer_id=3, transactional=True)
    followed = follow(lab)
    assert followed.view.last_stable_offset == 0
    assert followed.read(0, isolation=Isolation.COMMITTED) == ([], 0, [])
    lab.end_transaction(3, committed=False)
    lab.files.rename(path(0, Kind.TRANSACTION_INDEX), f"{DIRECTORY}/later")
    assert followed.read(0, isolation=Isolation.COMMITTED).aborted == [(3, 0, 1, 2)]
    lab.files.rename(f"{DIRECTORY}/later", path(0, Kind.TRANSACTION_INDEX))
    assert followed.read(0, isolation=Isolation.COMMITTED).aborted == [(3, 0, 1, 2)]
    assert follow(lab).view.aborted(0, 2) == [(3, 0, 1, 2)]


def test_a_last_segment_that_is_replaced_takes_its_transactions_along() -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent(b"0"))
    lab.log.roll()
    lab.produce(b"open", 0, producer_id=3, transactional=True)
    followed = follow(lab)
    assert followed.view.last_stable_offset == 1
    new = sent(b"other")
    lab.files.remove(path(1))
    with lab.files.open_writing(path(1), create=True) as file:
        file.write_at(0, [(1).to_bytes(8, "big") + new[8:]])
    assert (followed.view.end_offset, followed.view.last_stable_offset) == (2, 2)


def test_an_older_view_is_asked_after_a_newer_one() -> None:
    lab = LogOnMemory()
    lab.produce(b"open", 0, producer_id=3, transactional=True)
    followed = follow(lab)
    older = followed.view
    lab.end_transaction(3, committed=True)
    assert followed.view.last_stable_offset == 2
    assert older.last_stable_offset == 0
    assert followed.view.last_stable_offset == 2
    assert [state.producer_id for state in followed.producers.states()] == [3]


def test_epochs_are_those_that_are_written_down_now() -> None:
    lab = LogOnMemory()
    followed = follow(lab)
    assert followed.epochs.entries == ()
    lab.log.append_as_leader(sent(b"x"), leader_epoch=4)
    assert followed.epochs.entries == (EpochStart(4, 0),)


def test_a_closed_one_stays_as_it_was() -> None:
    lab = filled(2)
    followed = follow(lab)
    view = followed.view
    followed.close()
    followed.close()
    lab.log.append_as_leader(sent(b"more"))
    assert followed.view is view
    assert values(view) == [b"0", b"1"]
    unseen = follow(lab)
    unseen.close()
    assert unseen.view.end_offset == 3


def test_following_changes_nothing_and_keeps_no_file_open() -> None:
    lab = filled()
    steps, contents = lab.files.steps, lab.contents()
    followed = follow(lab)
    values(followed.view)
    followed.find_timestamp(NOW_MS + 3)
    _ = followed.producers, followed.epochs, followed.view.last_stable_offset
    followed.close()
    assert (lab.files.steps, lab.contents()) == (steps, contents)
