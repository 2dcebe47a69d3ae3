"""A bare directory among a store's log directories, as of a disk that is not mounted: verify, recover and a mount."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from memory_logs import StandingClock
from metadata_logs import NODE_ID, BrokerDir, partition_record, topic_record
from staged_stores import PATHS, StagedStore

from storage.errors import NotAStoreError
from storage.store.recovered_log_dir import RecoveredLogDir
from storage.store.store import Mode, Store
from storage.store.store_recovery import plan_recovery, recover_store
from storage.testing.memory_files import MemoryFiles
from storage.verify.finding import Finding, FindingKind, Severity
from storage.verify.verification import Verification

OTHER_ID = UUID(int=1 << 90)
EMPTY = "the directory is empty: its disk may not be mounted"


@pytest.fixture
def broker() -> BrokerDir:
    """The first of two log directories; the other one is bare."""
    made = BrokerDir(MemoryFiles())
    made.add_partition("orders")
    made.files.make_directory("/bare")
    return made


def found(files: MemoryFiles, *paths: str) -> list[Finding]:
    findings = Verification(files, [Path(path) for path in paths]).run(lambda: None)
    return [each for each in findings if each.kind is FindingKind.BARE_LOG_DIR]


def recovered(files: MemoryFiles, *paths: str) -> list[RecoveredLogDir]:
    """What recovery says of the bare ones, which is what its plan says."""
    outcomes: list[list[RecoveredLogDir]] = []
    for run in (plan_recovery, recover_store):
        told: list[object] = []
        run(paths, files=files, clock=StandingClock(), announce=lambda *_: None, tell=told.append)
        outcomes.append([each for each in told if isinstance(each, RecoveredLogDir) and each.bare is not None])
    assert outcomes[0] == outcomes[1]
    return outcomes[1]


@pytest.mark.parametrize("left", [[], ["lost+found"], [".lock", ".kafka_cleanshutdown"]])
def test_the_metadata_log_names_what_is_missing(broker: BrokerDir, left: list[str]) -> None:
    files = broker.files
    for name in left:
        files.open_writing(f"/bare/{name}", create=True).close()
    broker.tell(
        topic_record("orders"),
        *map(partition_record, range(3)),
        topic_record("clicks", OTHER_ID),
        partition_record(0, OTHER_ID),
        partition_record(1, OTHER_ID, replicas=(NODE_ID + 1,)),
    )
    reason = f"{EMPTY}; 3 partitions of this broker are in no log directory: clicks-0, orders-1, orders-2"
    [finding] = found(files, broker.path, "/bare")
    assert (finding.severity, finding.log_dir, finding.reason) == (Severity.DAMAGE, "/bare", reason)
    assert finding.at_start is not None
    assert finding.at_start.endswith("makes partitions that are missing again, empty")
    [outcome] = recovered(files, broker.path, "/bare")
    assert outcome.bare is not None
    assert (str(outcome.path), outcome.bare.reason, outcome.bare.is_damage) == ("/bare", reason, True)
    assert outcome.bare.partitions == (("clicks", 0), ("orders", 1), ("orders", 2))
    assert sorted(files.names("/bare")) == sorted(left), "nothing is written to what is no store"
    assert files.status(f"{broker.path}/.kafka_cleanshutdown") is not None


def test_a_disk_that_was_added_is_no_damage(broker: BrokerDir) -> None:
    broker.tell(topic_record("orders"), partition_record())
    [finding] = found(broker.files, broker.path, "/bare")
    assert (finding.severity, finding.reason) == (
        Severity.NOTICE,
        f"{EMPTY}, or was added; no partition is missing",
    )
    [outcome] = recovered(broker.files, broker.path, "/bare")
    assert outcome.bare is not None
    assert not outcome.bare.is_damage
    assert broker.files.names("/bare") == []


def test_a_partition_that_is_still_on_its_way_from_another_broker_is_not_missing(broker: BrokerDir) -> None:
    moving = partition_record(1, replicas=(NODE_ID + 1, NODE_ID), adding=(NODE_ID,))
    broker.tell(topic_record("orders"), partition_record(), moving)
    assert [each.severity for each in found(broker.files, broker.path, "/bare")] == [Severity.NOTICE]


def test_a_metadata_log_that_is_damaged_says_nothing(broker: BrokerDir) -> None:
    broker.tell(topic_record("orders"), partition_record(1), partition_record(2))
    path = f"{broker.path}/__cluster_metadata-0/{0:020d}.log"
    with broker.files.open_writing(path) as file:
        file.write_at(broker.files.read(path).index(b"orders"), [b"x"])
    [finding] = found(broker.files, broker.path, "/bare")
    reason = f"{EMPTY}, or was added; whether partitions are missing is not known"
    assert (finding.severity, finding.reason) == (Severity.NOTICE, reason)


def test_the_first_log_directory_is_missed_although_only_it_says_what_was_in_it(broker: BrokerDir) -> None:
    files = broker.files
    for name in files.names(f"{broker.path}/__cluster_metadata-0"):
        files.remove(f"{broker.path}/__cluster_metadata-0/{name}")
    files.remove_directory(f"{broker.path}/__cluster_metadata-0")
    [finding] = found(files, "/bare", broker.path)
    assert (finding.severity, finding.log_dir) == (Severity.DAMAGE, "/bare")
    assert "the cluster's metadata log is in no log directory" in finding.reason
    assert [each.path for each in recovered(files, "/bare", broker.path)] == [Path("/bare")]


@pytest.fixture
def own() -> StagedStore:
    """A store that kafkafs made, from whose second log directory the disk went."""
    made = StagedStore()
    made.create({"orders": 4, "clicks": 1, "views": 1})
    for path in (f"/b/{each}" for each in made.files.names("/b")):
        if made.files.status(path).is_directory:  # type: ignore[union-attr]
            for name in made.files.names(path):
                made.files.remove(f"{path}/{name}")
            made.files.remove_directory(path)
        else:
            made.files.remove(path)
    return made


def test_a_store_of_our_own_knows_its_topics(own: StagedStore) -> None:
    here = {name for name in own.files.names("/a") if own.files.status(f"/a/{name}").is_directory}  # type: ignore[union-attr]
    topics = {"orders": 4, "clicks": 1, "views": 1}
    gone = {f"{topic}-{number}" for topic, count in topics.items() for number in range(count)} - here
    assert len(gone) == 3
    highest = max(int(name.rpartition("-")[2]) for name in here if name.startswith("orders-"))
    known = sorted(name for name in gone if int(name.rpartition("-")[2]) <= highest)
    [finding] = found(own.files, *PATHS)
    assert finding.severity is Severity.DAMAGE
    assert finding.reason.endswith(f"in no log directory: {', '.join(known)}")


def test_a_store_that_is_written_gets_no_marker_where_nothing_is(own: StagedStore) -> None:
    with own.open(Mode.READ_WRITE):
        pass
    assert own.files.names("/b") == [".lock"]
    assert own.files.status("/a/.kafka_cleanshutdown") is not None
    with own.open(Mode.READ_ONLY) as store:
        assert len(store.log_dirs) == 2


def test_directories_of_which_all_are_bare_are_no_store() -> None:
    files = MemoryFiles()
    for path in PATHS:
        files.make_directory(path)
        files.open_writing(f"{path}/.kafka_cleanshutdown", create=True).close()
    with pytest.raises(NotAStoreError, match="the directory is empty"):
        Store.open(PATHS, mode=Mode.READ_ONLY, files=files, clock=StandingClock())
