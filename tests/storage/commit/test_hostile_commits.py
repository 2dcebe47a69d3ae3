"""Ledgers and staged files that somebody made up: other logs are read and written, and nothing else is removed."""

from __future__ import annotations

import base64
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hostile import CASES
from hostile.commits import COMMIT_CASES, LEDGERS, STAGED, pending, staged_file
from hostile.store import RECORDS, HostileStore, sound_store

from storage.clock import Clock
from storage.commit.ledger import LEDGER_NAME, Ledger
from storage.errors import CorruptMetadataError, StagingError
from storage.files import Files
from storage.record import batches_of_rows
from storage.store.commit_recovery import RecoveredCommit
from storage.store.store import Mode, Store
from storage.store.store_recovery import RecoveryOptions, plan_recovery, recover_store
from storage.verify import Verification

if TYPE_CHECKING:
    from pathlib import Path

(ROWS,) = batches_of_rows([(1, None, b"more", ())], base_offset=None)


@pytest.fixture(params=[case.name for case in COMMIT_CASES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> HostileStore:
    made: HostileStore = CASES[request.param].make(tmp_path)
    return made


def end_of(store: HostileStore, topic: str) -> int:
    with Store.open([store.path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        return opened.log(topic, 0).view.end_offset


def told_by(store: HostileStore, *, plans: bool = False, withdraws: bool = True) -> RecoveredCommit:
    told: list[Any] = []
    (plan_recovery if plans else recover_store)(
        [store.path],
        files=Files(),
        clock=Clock(),
        announce=lambda *_: None,
        tell=told.append,
        options=RecoveryOptions(withdraws_commit=withdraws),
    )
    assert isinstance(told[-1], RecoveredCommit)
    return told[-1]


def test_other_logs_are_read_and_written(store: HostileStore) -> None:
    assert end_of(store, "sound") == RECORDS
    with Store.open([store.path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        opened.log_to_write("sound", 0).append_as_leader(ROWS)
    assert end_of(store, "sound") == RECORDS + 1


def test_nothing_but_staged_files_is_removed_and_nothing_cut(store: HostileStore) -> None:
    before = (store.path / "meta.properties").read_bytes()
    for plans in (True, False):
        told_by(store, plans=plans)
    assert (store.path / "meta.properties").read_bytes() == before
    assert store.secret.exists()
    assert end_of(store, "victim") == RECORDS
    assert end_of(store, "sound") == RECORDS


def test_what_no_staged_file_accounts_for_stays(tmp_path: Path) -> None:
    store = CASES["a ledger that claims the whole log"].make(tmp_path)
    withdrawn = told_by(store).withdrawn
    assert withdrawn is not None
    assert [each.is_kept for each in withdrawn] == [True]
    assert end_of(store, "victim") == RECORDS


def test_what_the_ledger_accounts_for_is_cut(tmp_path: Path) -> None:
    store = sound_store(tmp_path)
    with Store.open([store.path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        opened.log_to_write("victim", 0).append_as_leader(ROWS)
        (batch,) = opened.log("victim", 0).view.batches(RECORDS)
    for checksum, is_kept in ((0, True), (batch.crc, False)):
        checksums = [base64.b64encode(checksum.to_bytes(4, "big")).decode()]
        (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[STAGED], checksums=checksums))
        withdrawn = told_by(store).withdrawn
        assert withdrawn is not None
        assert [each.is_kept for each in withdrawn] == [is_kept]
    assert end_of(store, "victim") == RECORDS


@pytest.mark.parametrize("what", LEDGERS)
def test_a_ledger_that_cannot_be_read_is_told_of(tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture) -> None:
    store = CASES[f"a ledger of {what}"].make(tmp_path)
    (finding,) = Verification(Files(), [store.path]).run(lambda: None)
    assert (finding.kind, finding.path) == ("commits", LEDGER_NAME)
    for plans in (True, False):
        assert isinstance(told_by(store, plans=plans).error, CorruptMetadataError)
    opening = Store.open([store.path], mode=Mode.READ_ONLY, files=Files(), clock=Clock())
    with caplog.at_level(logging.WARNING), opening as opened:
        for topic in ("sound", "victim", "sound"):
            assert opened.log(topic, 0).view.end_offset == RECORDS
    assert caplog.text.count("readers are shown what it may be about to hide") == 1
    staged = store.path / STAGED
    staged.write_bytes(staged_file(b'{"topics":[],"runs":[]}'))
    with Store.open([store.path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        with pytest.raises(CorruptMetadataError):
            opened.commits.commit([STAGED])
        (store.path / LEDGER_NAME).unlink()
        assert opened.commits.commit([STAGED])
    assert not staged.exists()


def test_what_a_readable_ledger_withheld_stays_withheld(tmp_path: Path) -> None:
    store = sound_store(tmp_path)
    (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[STAGED], first=50, end=RECORDS))
    ledger = Ledger([Files().directory(store.path)])
    withheld = ledger.withheld(("victim", 0))
    assert (withheld.offset, withheld.end_offset) == (50, RECORDS)
    (store.path / LEDGER_NAME).write_bytes(b"[")
    assert ledger.withheld(("victim", 0)) == withheld


@pytest.mark.parametrize("kind", ["link", "FIFO", "socket", "directory"])
def test_what_has_a_staged_files_name_and_is_none_is_told_of(tmp_path: Path, kind: str) -> None:
    store = CASES[f"{kind} as kafkafs-staged-{0:032x}"].make(tmp_path)
    name = f"kafkafs-staged-{0:032x}"
    (store.path / LEDGER_NAME).write_bytes(pending(store, staged=[name]))
    for plans in (True, False):
        assert isinstance(told_by(store, plans=plans, withdraws=False).error, StagingError)
    assert told_by(store).error is None
    assert end_of(store, "victim") == RECORDS
