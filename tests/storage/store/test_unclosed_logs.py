"""What a store was left with is recovered while it is open, so that it is closed properly at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import sent

from storage.clock import Clock
from storage.files import Files
from storage.store.store import Mode, Store
from storage.store.unclosed_logs import recover_unclosed_logs

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = ("t1", "t2", "t3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a store with three logs that was not closed properly."""
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as store:
        for topic in TOPICS:
            store.topics.create(topic, 1)
            store.log(topic, 0).append_as_leader(sent(b"x"))
    marker(path).unlink()
    return path


def marker(path: Path) -> Path:
    return path / ".kafka_cleanshutdown"


def opened(path: Path) -> Store:
    return Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock())


def never() -> bool:
    return False


def test_logs_that_no_caller_wants_are_recovered_and_none_stays_open(path: Path) -> None:
    with opened(path) as store:
        store.log("t1", 0)
        rest = recover_unclosed_logs(store, Clock(), is_stopped=never)
        assert (rest.recovered, rest.failures, rest.is_given_up) == (2, [], False)
        assert list(store.open_logs()) == [("t1", 0)]
        assert store.partitions_to_recover() == []
        assert store.request("t2", 0).is_clean
        assert recover_unclosed_logs(store, Clock(), is_stopped=never).recovered == 0
    assert marker(path).exists()


def test_a_log_that_is_recovered_and_opened_later_speaks_for_itself(path: Path) -> None:
    with opened(path) as store:
        recover_unclosed_logs(store, Clock(), is_stopped=never)
        store.log("t2", 0).append_as_leader(sent(b"y"))  # type: ignore[attr-defined]
    assert marker(path).exists()
    with opened(path) as store:
        assert store.log("t2", 0).view.end_offset == 2
    assert "t2 0 2\n" in (path / "recovery-point-offset-checkpoint").read_text()


def test_giving_up_leaves_the_store_unclean(path: Path) -> None:
    answers = iter((False, True))
    with opened(path) as store:
        rest = recover_unclosed_logs(store, Clock(), is_stopped=lambda: next(answers))
        assert (rest.recovered, rest.is_given_up) == (1, True)
    assert not marker(path).exists()


def test_a_log_that_cannot_be_recovered_is_named_once_and_leaves_the_store_unclean(path: Path) -> None:
    log = path / "t2-0" / f"{0:020}.log"
    log.unlink()
    log.symlink_to(log.name)
    with opened(path) as store:
        rest = recover_unclosed_logs(store, Clock(), is_stopped=never)
        assert rest.recovered == 2
        (failure,) = rest.failures
        assert failure.startswith("t2-0 could not be recovered: ")
        assert recover_unclosed_logs(store, Clock(), is_stopped=never).failures == []
    assert not marker(path).exists()


def test_a_topic_that_is_deleted_and_made_again_is_not_taken_for_what_was_recovered(path: Path) -> None:
    with opened(path) as store:
        recover_unclosed_logs(store, Clock(), is_stopped=never)
        store.topics.delete("t3")
        store.topics.create("t3", 1)
    assert marker(path).exists()
    assert "t3 0 1" not in (path / "recovery-point-offset-checkpoint").read_text()


def test_a_damaged_log_is_cut_and_said(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (path / "t3-0" / f"{0:020}.log").open("ab") as log:
        log.write(b"half a batch")
    with opened(path) as store:
        assert recover_unclosed_logs(store, Clock(), is_stopped=never).recovered == 3
    assert "t3-0 was recovered: " in caplog.text
    assert "12 bytes of logs lost" in caplog.text
    assert "t1-0" not in caplog.text
    assert marker(path).exists()
