"""A block in which one thread sees one view of a log that somebody else writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from storage.errors import UnknownPartitionError
from storage.log.followed_log import FollowedLog


def follow(lab: LogOnMemory) -> FollowedLog:
    return FollowedLog(lab.clock, lab.files.directory(DIRECTORY), lab.config, producer_expiration_ms=10**9)


def append(lab: LogOnMemory) -> None:
    lab.log.append_as_leader(sent([(NOW_MS, b"value")]))


def test_the_view_is_that_of_the_first_question() -> None:
    lab = LogOnMemory()
    append(lab)
    followed = follow(lab)
    before = followed.view
    append(lab)
    with followed.one_look():
        append(lab)
        first = followed.view
        assert (before.end_offset, first.end_offset) == (1, 3)
        append(lab)
        with followed.one_look():
            assert followed.view is first
        assert followed.view is first
        assert followed.on_view(lambda view: view.end_offset) == 3
    assert followed.view.end_offset == 4


def test_other_threads_see_what_is_new() -> None:
    lab = LogOnMemory()
    append(lab)
    followed = follow(lab)
    with ThreadPoolExecutor(1) as other:
        with followed.one_look():
            first = followed.view
            append(lab)

            def looked_beside() -> tuple[int, int]:
                with followed.one_look():
                    end_offset = followed.view.end_offset
                    append(lab)
                    return end_offset, followed.view.end_offset

            assert other.submit(looked_beside).result() == (2, 3)
            assert followed.view is first
        assert followed.view.end_offset == 3


def test_a_question_without_an_answer_is_asked_again() -> None:
    lab = LogOnMemory()
    append(lab)
    followed = follow(lab)
    with followed.one_look():
        lab.files.rename(DIRECTORY, "/away")
        with pytest.raises(UnknownPartitionError):
            _ = followed.view
        lab.files.rename("/away", DIRECTORY)
        assert followed.view.end_offset == 1
