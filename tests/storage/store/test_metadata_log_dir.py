"""A log directory with nothing but the cluster's metadata log, as `metadata.log.dir` is: no marker speaks of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from memory_logs import StandingClock, sent
from metadata_logs import BrokerDir, partition_record, topic_record

from storage.log_dir.recognition import CLEAN_MARKER_NAME
from storage.store.log_opener import LogOpener
from storage.store.recovered_log_dir import RecoveredLogDir
from storage.store.store import Mode, Store
from storage.store.store_recovery import plan_recovery, recover_store
from storage.testing.memory_files import MemoryFiles
from storage.verify.finding import Severity
from storage.verify.verification import Verification

LOGS, META = "/logs", "/meta"
MARKER = f"{META}/{CLEAN_MARKER_NAME}"
CLOCK = StandingClock()


@pytest.fixture
def files() -> MemoryFiles:
    """Give the log directories of a broker that was stopped: it leaves a marker in the one with the partitions."""
    files = MemoryFiles()
    BrokerDir(files, META).tell(topic_record("orders"), partition_record())
    logs = BrokerDir(files, LOGS)
    files.remove(f"{LOGS}/__cluster_metadata-0/partition.metadata")
    files.remove_directory(f"{LOGS}/__cluster_metadata-0")
    logs.add_partition("orders")
    mark(files, LOGS)
    return files


def mark(files: MemoryFiles, directory: str) -> None:
    with files.open_writing(f"{directory}/{CLEAN_MARKER_NAME}", create=True) as file:
        file.write_at(0, [b'{"version":0,"brokerEpoch":7}'])


def opened(files: MemoryFiles) -> Store:
    return Store.open([LOGS, META], mode=Mode.READ_WRITE, files=files, clock=CLOCK, open_log=LogOpener())


def test_a_store_that_was_closed_needs_no_marker_there_and_gets_none(files: MemoryFiles) -> None:
    with opened(files) as store:
        assert store.partitions_to_recover() == []
        store.log("orders", 0).append_as_leader(sent(b"1"))  # type: ignore[attr-defined]
    assert files.status(f"{LOGS}/{CLEAN_MARKER_NAME}") is not None
    assert files.status(MARKER) is None


def test_a_marker_that_came_to_be_there_means_nothing_and_goes(files: MemoryFiles) -> None:
    mark(files, META)
    for run in (plan_recovery, recover_store):
        found: list[object] = []
        run([LOGS, META], files=files, clock=CLOCK, announce=lambda *_: None, tell=found.append)
        [_, meta] = [each for each in found if isinstance(each, RecoveredLogDir)]
        assert (meta.trusts_marker, meta.is_closed, [step.name for step in meta.steps]) == (
            False,
            True,
            [CLEAN_MARKER_NAME],
        )
    assert files.status(MARKER) is None


def test_indexes_of_a_metadata_log_that_a_broker_had_open_are_no_damage(files: MemoryFiles) -> None:
    mark(files, META)
    for partition in (f"{META}/__cluster_metadata-0", f"{LOGS}/orders-0"):
        for suffix in ("index", "timeindex"):
            with files.open_writing(f"{partition}/{0:020d}.{suffix}", create=True) as file:
                file.write_at(0, [bytes(120)])
    findings = list(Verification(files, [Path(LOGS), Path(META)]).run(lambda: None))
    names = [each.path for each in findings if each.severity is Severity.DAMAGE and "index" in each.path]
    assert names == [f"orders-0/{0:020d}.{suffix}" for suffix in ("index", "timeindex")]


def test_new_partitions_go_where_brokers_look_for_them(files: MemoryFiles) -> None:
    with opened(files) as store:
        store.topics.create("new", 3)
        assert {str(log_dir.path) for log_dir in store.topics.partitions("new").values()} == {LOGS}
