"""Damage is looked for once: in a log that grows, only in what was appended."""

from __future__ import annotations

import pytest
from damaged_logs import DamagedLog
from memory_logs import NOW_MS, LogOnMemory, sent

from kafkafs.content import patience
from kafkafs.tree.known_damage import KnownDamage
from storage.verify import log_check
from storage.verify.batch_check import CheckedBatch, check_batch


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gather the base offsets of the batches that are decoded to find damage."""
    offsets: list[int] = []

    def checked(batch) -> CheckedBatch:
        offsets.append(batch.read_first_offset())
        return check_batch(batch)

    monkeypatch.setattr(log_check, "check_batch", checked)
    return offsets


def append(lab: LogOnMemory, count: int) -> None:
    for number in range(count):
        lab.log.append_as_leader(sent([(NOW_MS, b"%d" % number)]))


def test_what_was_appended_is_decoded_and_nothing_else(decoded: list[int]) -> None:
    lab = LogOnMemory()
    append(lab, 5)
    known = KnownDamage()
    assert known.unread_bytes(lab.log.view) > 0
    assert known.ranges(lab.log.view) == []
    assert (decoded, known.unread_bytes(lab.log.view)) == ([0, 1, 2, 3, 4], 0)
    before = lab.log.view.end_position
    append(lab, 2)
    assert known.unread_bytes(lab.log.view) == lab.log.view.end_position - before
    assert known.ranges(lab.log.view) == []
    assert decoded == [0, 1, 2, 3, 4, 5, 6]


def test_a_log_that_was_truncated_is_decoded_again(decoded: list[int]) -> None:
    lab = LogOnMemory()
    append(lab, 5)
    known = KnownDamage()
    known.ranges(lab.log.view)
    lab.log.truncate_to(2)
    append(lab, 6)
    decoded.clear()
    known.ranges(lab.log.view)
    assert decoded == [0, 1, 2, 3, 4, 5, 6, 7]


def test_damage_in_what_was_appended_is_found_after_the_last_good_offset(decoded: list[int]) -> None:
    lab = DamagedLog(close=False)
    known = KnownDamage()
    known.ranges(lab.log.view)
    base, begin, offset = lab.log.view.bases[-1], lab.log.view.end_position, lab.log.view.end_offset
    lab.log.append_as_leader(sent([(NOW_MS, b"hurt")]))
    hurt_bytes = lab.log.view.end_position - begin
    lab.log.append_as_leader(sent([(NOW_MS, b"sound")]))
    assert lab.log.view.bases[-1] == base, "the log has not rolled"
    lab.flip(lab.path(base), begin + hurt_bytes - 1)
    decoded.clear()
    (found,) = known.ranges(lab.log.view)
    assert (found.position, found.last_good_offset, found.next_good_offset) == (begin, offset - 1, offset + 1)
    assert decoded == [offset, offset + 1]


def test_a_log_whose_damage_takes_too_long_to_find_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = DamagedLog(close=False)
    known = KnownDamage()
    view = lab.log.view
    assert not known.is_left_alone(view)
    monkeypatch.setattr(patience, "LOOK_S", 1e-9)
    assert not known.look(view)
    assert known.is_left_alone(view)
    monkeypatch.setattr(patience, "REST_S", -1.0)
    assert not known.look(view)
    assert known.is_left_alone(view), "a look that had no patience ends no rest"
    known.ranges(view)
    assert not known.is_left_alone(view), "all is known"
