"""Recovery itself is cut at every step, and ends the same when it is begun again."""

from __future__ import annotations

import pytest
from memory_logs import DIRECTORY, NOW_MS
from promises import PromisedBatch
from promising_logs import PromisingLog
from soundness import check_sound, damages

from storage.log.epochs import EPOCHS_NAME
from storage.record.encoding import batches_of_rows
from storage.segment.names import FileName, FileSuffix, Kind

pytestmark = pytest.mark.crash

FAR_AWAY = (15, 16, 2**31 + 20, 2**31 + 21, 2**32 + 100)
SMALL = {"segment.bytes": "1000", "segment.index.bytes": "120", "index.interval.bytes": "128"}


def name(base_offset: int, kind: Kind = Kind.LOG, suffix: FileSuffix = FileSuffix.LIVE) -> str:
    return str(FileName(base_offset, kind, suffix))


def write(log: PromisingLog, name: str, data: bytes, position: int = 0) -> None:
    with log.files.open_writing(f"{DIRECTORY}/{name}", create=True) as file:
        file.write_at(position, [data])
        file.sync()


def whole_log() -> PromisingLog:
    """Four segments with transactions, closed."""
    log = PromisingLog(SMALL)
    for sequence in range(3):
        log.produce(b"first" * 30, sequence)
    log.produce(b"aborted" * 20, 0, producer_id=8, transactional=True)
    log.end_transaction(8, committed=False)
    log.leader_epoch = 3
    for sequence in range(3, 12):
        log.produce(b"second" * 30, sequence)
    log.produce(b"left open", 1, producer_id=8, transactional=True)
    log.close()
    assert log.log.view.bases == (0, 5, 8, 11)
    return log


def torn_tail(log: PromisingLog) -> None:
    contents = log.contents()[name(11)]
    write(log, name(11), contents[:150], len(contents))


def bad_checksum_in_the_middle(log: PromisingLog) -> None:
    write(log, name(5), b"?", 400)


def offsets_that_go_back(log: PromisingLog) -> None:
    contents = log.contents()[name(8)]
    write(log, name(8), contents, len(contents))


def zeros_behind_a_finished_segment(log: PromisingLog) -> None:
    write(log, name(5), bytes(3000), len(log.contents()[name(5)]))


def a_segment_that_ends_early(log: PromisingLog) -> None:
    batches = [batch for batch in log.promises.batches if batch.first_offset in (5, 6)]
    assert len(batches) == 2
    with log.files.open_writing(f"{DIRECTORY}/{name(5)}") as file:
        position = log.log.view.segments[1].locate(6)
        assert position
        file.truncate(position)
        file.sync()


def no_indexes(log: PromisingLog) -> None:
    for base_offset in (0, 8):
        for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            log.files.remove(f"{DIRECTORY}/{name(base_offset, kind)}")
    log.files.sync_directory(DIRECTORY)


def no_epochs(log: PromisingLog) -> None:
    write(log, EPOCHS_NAME, bytes(len(log.contents()[EPOCHS_NAME])))


def left_overs(log: PromisingLog) -> None:
    for left in (
        name(0, Kind.OFFSET_INDEX, FileSuffix.CLEANED),
        name(5, suffix=FileSuffix.DELETED),
        name(8, suffix=FileSuffix.CLEANED),
        name(8, Kind.SNAPSHOT) + ".tmp",
        name(7, Kind.OFFSET_INDEX),
        name(7, Kind.SNAPSHOT),
        f"{EPOCHS_NAME}.tmp",
    ):
        write(log, left, b"left")
    log.files.sync_directory(DIRECTORY)


def complete_replacement(log: PromisingLog) -> None:
    contents = log.contents()
    write(log, name(0, suffix=FileSuffix.SWAP), contents[name(0)] + contents[name(5)])
    write(log, name(0, Kind.OFFSET_INDEX, FileSuffix.SWAP), b"")
    write(log, name(0, Kind.TIME_INDEX, FileSuffix.SWAP), b"")
    log.files.sync_directory(DIRECTORY)


def too_many_offsets(log: PromisingLog) -> None:
    rows = [(NOW_MS, b"key", b"far away" * 10, ())]
    batches = [next(batches_of_rows(rows, base_offset=offset)) for offset in FAR_AWAY]
    write(log, name(11), b"".join(batches), len(log.contents()[name(11)]))


DAMAGES = {
    "torn tail": (torn_tail, {}, 15),
    "torn tail of a log that was closed": (torn_tail, {"is_clean": True}, 15),
    "bad checksum": (bad_checksum_in_the_middle, {}, 6),
    "offsets that go back": (offsets_that_go_back, {"recovery_point": 9}, 15),
    "zeros": (zeros_behind_a_finished_segment, {}, 15),
    "a segment that ends early": (a_segment_that_ends_early, {}, 6),
    "no indexes": (no_indexes, {"is_clean": True}, 15),
    "no epochs": (no_epochs, {"is_clean": True}, 15),
    "left-overs": (left_overs, {}, 15),
    "left-overs of a log that was closed": (left_overs, {"is_clean": True}, 15),
    "complete replacement": (complete_replacement, {}, 15),
    "too many offsets": (too_many_offsets, {}, 2**32 + 101),
    "start after the end": (torn_tail, {"start_offset": 100}, 100),
    "start in the middle": (torn_tail, {"start_offset": 9}, 15),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_interrupted_recovery_is_begun_again(crashes, damage: str) -> None:
    change, known, end_offset = DAMAGES[damage]

    def prepare() -> PromisingLog:
        log = whole_log()
        change(log)
        return log

    def recover(log: PromisingLog) -> None:
        assert log.recover(**known).steps

    for log, later in crashes.of(prepare, recover):
        for files, _ in later:
            survivor = log.survivor(files)
            assert survivor.recover(**known).end_offset == end_offset
            check_recovered(survivor, known.get("start_offset", 0), end_offset)


def check_recovered(log: PromisingLog, start_offset: int, end_offset: int) -> None:
    """Check that the rest is what was appended, sound, and can be appended to."""
    has_gaps = end_offset > 2**32
    assert [finding for finding in damages(log, start_offset) if not (has_gaps and "lacks" in finding.reason)] == []
    view = log.open(start_offset).view
    assert (view.start_offset, view.end_offset) == (start_offset, end_offset)
    found = [PromisedBatch.of(batch) for batch in view.batches(start_offset)]
    before = [batch for batch in log.promises.batches if start_offset <= batch.first_offset < end_offset]
    assert found[: len(before)] == before
    assert len(found) - len(before) == (len(FAR_AWAY) if has_gaps else 0)
    if not has_gaps:
        check_sound(log.log)
    log.append(b"and on")
    log.close()
    assert log.recover(is_clean=True, start_offset=start_offset).steps == []
