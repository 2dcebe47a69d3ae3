"""Commits that cannot be completed: an operator withdraws their written part, and no reader has seen half of one."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from memory_logs import sent
from soundness import check_sound
from staged_stores import PATHS, StagedStore

from storage.commit.applied import Transaction
from storage.commit.ledger import LEDGER_NAME, Ledger
from storage.commit.withdrawal import Withdrawal
from storage.errors import StagingError
from storage.record.encoding import BatchForm
from storage.store.commit_recovery import RecoveredCommit
from storage.store.store import Mode
from storage.store.store_recovery import RecoveryOptions, plan_recovery, recover_store
from storage.testing.faults import Cut, CutError

TRANSACTION = Transaction("app", 1)
VALUES = [b"%d" % index * 40 for index in range(12)]
ROWS = [("t", index % 2, value) for index, value in enumerate(VALUES)]
BEFORE = {("t", 0): [b"before"], ("t", 1): [b"before"]}
COMMITTED = {("t", 0): [b"before", *VALUES[::2]], ("t", 1): [b"before", *VALUES[1::2]]}


@pytest.fixture
def store() -> StagedStore:
    made = StagedStore()
    made.create({"t": 2})
    made.commit([made.stage([("t", 0, b"before"), ("t", 1, b"before")], seed=1).name], Transaction("app", 0))
    return made


def half(store: StagedStore) -> bool:
    return store.bytes_of("t", 0) == COMMITTED["t", 0] and store.bytes_of("t", 1) == BEFORE["t", 1]


def decided(store: StagedStore) -> bool:
    return Ledger([store.files.directory(path) for path in PATHS]).current.pending is not None


def path_of(store: StagedStore, name: str) -> str:
    return next(f"{path}/{name}" for path in PATHS if name in store.files.names(path))


def left_behind(store: StagedStore, *, is_seen=half) -> str:
    """Have a commit interrupted, and return the path of what was staged for it."""
    staged = store.stage(ROWS, seed=2)
    store.interrupt([staged.name], is_seen=is_seen, transaction=TRANSACTION)
    return path_of(store, staged.name)


def recovered(store: StagedStore, recover=recover_store, *, withdraws: bool = True) -> RecoveredCommit:
    told: list[object] = []
    options = RecoveryOptions(withdraws_commit=withdraws)
    recover(PATHS, files=store.files, clock=store.clock, announce=lambda *_: None, tell=told.append, options=options)
    commit = told[-1]
    assert isinstance(commit, RecoveredCommit)
    return commit


def remove(store: StagedStore, path: str) -> None:
    store.files.remove(path)
    store.files.sync_directory(str(Path(path).parent))


def damage(store: StagedStore, path: str) -> None:
    with store.files.open_writing(path) as file:
        file.write_at(file.size_bytes() // 2, [b"damage"])


def check_repeated(store: StagedStore) -> None:
    """The job is run again, and is there once, in sound logs."""
    again = store.stage(ROWS, seed=3)
    assert store.commit([again.name], TRANSACTION)
    assert store.values() == COMMITTED
    assert store.staged_names() == []
    with store.open() as opened:
        for partition in COMMITTED:
            check_sound(opened.log(*partition))


@pytest.mark.parametrize("has_gone", [True, False])
@pytest.mark.parametrize("is_seen", [decided, half])
def test_what_cannot_be_completed_is_taken_back_and_repeated(store: StagedStore, has_gone: bool, is_seen) -> None:
    path = left_behind(store, is_seen=is_seen)
    if has_gone:
        remove(store, path)
    else:
        damage(store, path)
    # The damage is not in the written part of the first partition, so that completing the commit gets there.
    there = [] if has_gone and is_seen is decided else [Withdrawal(("t", 0), 1, 7, is_kept=False)]
    assert store.values(Mode.READ_ONLY) == BEFORE
    failed = recovered(store, withdraws=False)
    assert isinstance(failed.error, StagingError)
    assert failed.error.path == path
    reason = "a staged file is gone" if has_gone else "a staged file is damaged"
    assert failed.error.reason.startswith(f"{reason}; a commit that was interrupted cannot be completed without it;")
    steps = store.files.steps
    planned = recovered(store, plan_recovery)
    assert (planned.withdrawn, planned.error, store.files.steps) == (there, None, steps)
    done = recovered(store)
    assert (done.withdrawn, done.error, done.intent.transaction) == (there, None, TRANSACTION)
    assert store.values(Mode.READ_ONLY) == BEFORE
    assert store.staged_names() == []
    check_repeated(store)


def test_what_can_be_completed_is_not_taken_back(store: StagedStore) -> None:
    left_behind(store)
    for recover in (plan_recovery, recover_store):
        assert recovered(store, recover).withdrawn is None
    assert store.values() == COMMITTED


@pytest.mark.crash
def test_an_interrupted_withdrawal_is_begun_again(store: StagedStore) -> None:
    remove(store, left_behind(store))
    before = store.files
    for step in count():
        survivor = StagedStore(before.after_process_death(), store.clock)
        survivor.files.cut = Cut(survivor.files.steps + step)
        try:
            recovered(survivor)
        except CutError:
            is_cut = True
        else:
            is_cut = False
        survivor.files = survivor.files.after_power_loss(step) if step % 2 else survivor.files.after_process_death()
        if decided(survivor):
            assert recovered(survivor).withdrawn is not None
        assert survivor.values(Mode.READ_WRITE) == BEFORE
        check_repeated(survivor)
        if not is_cut:
            return


def test_what_lies_among_the_records_of_others_stays(store: StagedStore) -> None:
    """A broker was started in between, and knew nothing of the commit."""
    path = left_behind(store)
    ledger = path_of(store, LEDGER_NAME)
    said = store.files.read(ledger)
    store.files.remove(ledger)
    form = BatchForm(producer_id=7, producer_epoch=0, base_sequence=0)
    with store.open() as opened:
        for partition in COMMITTED:
            opened.log(*partition).append_as_leader(sent(b"of a broker", form))
    with store.files.open_writing(ledger, create=True) as file:
        file.write_at(0, [said])
    store.files.remove(path)
    expected = [Withdrawal(("t", 0), 1, 7, is_kept=True), Withdrawal(("t", 1), 1, 2, is_kept=True)]
    assert recovered(store, plan_recovery).withdrawn == expected
    assert recovered(store).withdrawn == expected
    assert store.values() == {
        ("t", 0): [*COMMITTED["t", 0], b"of a broker"],
        ("t", 1): [b"before", b"of a broker"],
    }
