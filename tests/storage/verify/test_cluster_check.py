"""What verify makes of a store when its metadata log says what the cluster has."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from metadata_logs import (
    NODE_ID,
    TOPIC_ID,
    BrokerDir,
    broker_setting,
    partition_record,
    registration,
    topic_record,
    topic_setting,
)

from storage.record import batches_of_rows
from storage.testing.memory_files import MemoryFiles
from storage.verify.finding import FindingKind, Severity
from storage.verify.verification import Verification

OTHER_ID = UUID(int=99)
LOG_DIR_ID = UUID("aaaaaaaa-2222-4333-8444-555555555555")


@pytest.fixture
def broker() -> BrokerDir:
    made = BrokerDir(MemoryFiles())
    made.add_partition("orders")
    return made


def found(
    broker: BrokerDir, kind: FindingKind, settings: dict[str, str] | None = None
) -> list[tuple[str, Severity, str]]:
    verification = Verification(broker.files, [Path(broker.path)], server_properties=settings or {})
    findings = [each for each in verification.run(lambda: None) if each.kind is kind]
    return [(each.path, each.severity, each.reason) for each in findings]


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([], "the cluster has no topic of the id ERERESIiQzOERFVVVVVVVQ"),
        ([topic_record("clicks")], "the cluster's topic 'clicks' has no partition 0"),
        ([topic_record("orders")], "the cluster's topic 'orders' has no partition 0"),
        ([topic_record("\x1b\n\udcff")], r"the cluster's topic '\x1b\n\udcff' has no partition 0"),
        (
            [topic_record("orders"), partition_record(replicas=(2, 3))],
            f"the cluster has the partition on brokers 2, 3 and not on {NODE_ID}",
        ),
    ],
)
def test_what_a_broker_puts_aside_is_said(broker: BrokerDir, records: list[bytes], why: str) -> None:
    broker.tell(broker_setting("log.retention.ms", "5"), *records)
    [(path, severity, reason)] = found(broker, FindingKind.STRAY)
    assert (path, severity) == ("orders-0", Severity.NOTICE)
    assert reason.startswith(f"{why}, as the metadata log, which ends at offset {len(records) + 1}, says: a broker")


def test_what_the_cluster_has_here_is_no_stray(broker: BrokerDir) -> None:
    broker.tell(topic_record("orders"), partition_record(replicas=(2, NODE_ID)))
    assert found(broker, FindingKind.STRAY) == []


def test_a_partition_under_a_name_that_the_cluster_does_not_know_is_not_put_aside(broker: BrokerDir) -> None:
    broker.tell(topic_record("clicks"), partition_record())
    [(_, severity, reason)] = found(broker, FindingKind.STRAY)
    assert severity is Severity.DAMAGE, "no broker leaves it, and its records are served to no client"
    assert reason.startswith("its id ERERESIiQzOERFVVVVVVVQ is that of the topic 'clicks', as the metadata log, which")
    assert reason.endswith("a broker opens it under a name that the cluster does not know, and serves it to no client")


def test_a_partition_without_a_topic_id_is_put_aside(broker: BrokerDir) -> None:
    broker.files.remove(f"{broker.path}/orders-0/partition.metadata")
    broker.tell(topic_record("orders"), partition_record())
    [(path, _, reason)] = found(broker, FindingKind.STRAY)
    assert (path, reason[:46]) == ("orders-0", "it has no partition.metadata, and so no topic ")
    assert reason.endswith(": a broker renames its directory to -stray and serves it no more")


def test_the_cluster_says_which_of_several_ids_is_right(broker: BrokerDir) -> None:
    broker.add_partition("orders", 1, OTHER_ID)
    broker.tell(topic_record("orders"), partition_record())
    assert [path for path, _, _ in found(broker, FindingKind.STRAY)] == ["orders-1"]
    assert found(broker, FindingKind.PARTITION_METADATA) == []


def test_a_copy_on_its_way_has_the_id_of_the_cluster_s_topic(broker: BrokerDir) -> None:
    name = f"orders-0.{'a' * 32}-future"
    broker.files.rename(f"{broker.path}/orders-0", f"{broker.path}/{name}")
    broker.tell(topic_record("orders", OTHER_ID), partition_record(topic_id=OTHER_ID))
    [(path, severity, reason)] = found(broker, FindingKind.PARTITION_METADATA)
    assert (path, severity) == (f"{name}/partition.metadata", Severity.DAMAGE)
    assert "and the cluster's orders has AAAAAAAAAAAAAAAAAAAAYw" in reason


@pytest.mark.parametrize(
    ("directory_id", "why"),
    [
        (None, f"it has no directory.id, and broker {NODE_ID} registered with one"),
        (LOG_DIR_ID, f"broker {NODE_ID} registered no log directory of the id qqqqqiIiQzOERFVVVVVVVQ"),
    ],
)
def test_a_log_dir_that_its_broker_did_not_register_is_said(
    broker: BrokerDir, directory_id: UUID | None, why: str
) -> None:
    if directory_id is not None:
        broker.set_directory_id(directory_id)
    broker.tell(registration(metadata_version=20, log_dirs=[TOPIC_ID, UUID(int=98)]))
    [(path, severity, reason)] = found(broker, FindingKind.META_PROPERTIES)
    assert (path, severity) == ("meta.properties", Severity.NOTICE)
    assert reason.startswith(f"{why}, as the metadata log, which ends")


@pytest.mark.parametrize(
    "record",
    [
        registration(metadata_version=20, log_dirs=[TOPIC_ID, LOG_DIR_ID]),
        registration(metadata_version=20),  # before brokers registered them
        registration(metadata_version=20, node_id=NODE_ID + 1, log_dirs=[TOPIC_ID]),
    ],
    ids=["with it", "without ids", "another broker's"],
)
def test_a_log_dir_that_its_broker_registered_is_not_mentioned(broker: BrokerDir, record: bytes) -> None:
    broker.set_directory_id(LOG_DIR_ID)
    broker.tell(record)
    assert found(broker, FindingKind.META_PROPERTIES) == []


def newer(record: bytes) -> bytes:
    """The record in a version that is not known."""
    return record[:2] + b"\x1f" + record[3:]


@pytest.mark.parametrize("record", [topic_record("clicks"), partition_record(1), topic_setting("a", "b", "c")])
def test_records_of_a_newer_version_may_say_anything(broker: BrokerDir, record: bytes) -> None:
    broker.tell(newer(record))
    assert found(broker, FindingKind.STRAY) == []


def test_records_of_a_newer_version_that_say_nothing_of_topics_do_not_matter(broker: BrokerDir) -> None:
    broker.tell(newer(registration(metadata_version=21)))
    assert len(found(broker, FindingKind.STRAY)) == 1


def test_a_metadata_log_without_its_beginning_is_damage_and_says_nothing_of_strays() -> None:
    broker = BrokerDir(MemoryFiles(), first_offset=10)
    broker.add_partition("orders")
    broker.tell(topic_record("clicks", OTHER_ID))
    assert found(broker, FindingKind.STRAY) == []
    [(path, severity, reason)] = found(broker, FindingKind.METADATA_SNAPSHOT)
    assert (path, severity) == ("__cluster_metadata-0", Severity.DAMAGE)
    assert reason.startswith("the log starts at offset 10, and no snapshot ends there or later")
    broker.add_snapshot(9, topic_record("orders"), partition_record())
    assert len(found(broker, FindingKind.METADATA_SNAPSHOT)) == 1
    broker.add_snapshot(10, topic_record("orders"), partition_record())
    assert found(broker, FindingKind.METADATA_SNAPSHOT) == []
    assert found(broker, FindingKind.STRAY) == []


def test_a_damaged_metadata_log_says_nothing_of_strays(broker: BrokerDir) -> None:
    broker.tell(topic_record("clicks", OTHER_ID), topic_record("orders"))
    path = f"{broker.path}/__cluster_metadata-0/{0:020d}.log"
    with broker.files.open_writing(path) as file:
        file.write_at(broker.files.read(path).index(b"orders"), [b"x"])
    assert found(broker, FindingKind.STRAY) == []
    assert found(broker, FindingKind.CHECKSUM)


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize("level", ["topic", "broker", "brokers", "server.properties"])
def test_a_compacted_topic_may_lack_offsets(broker: BrokerDir, *, is_compacted: bool, level: str) -> None:
    policy = "compact,delete" if is_compacted else "delete"
    told = {"topic": topic_setting("orders", "cleanup.policy", policy)}
    told["brokers"] = broker_setting("log.cleanup.policy", policy)
    told["broker"] = broker_setting("log.cleanup.policy", policy, node_id=NODE_ID)
    broker.tell(topic_record("orders", TOPIC_ID), partition_record(), *([told[level]] if level in told else ()))
    settings = {} if level in told else {"log.cleanup.policy": policy}
    write_gap(broker)
    assert bool(found(broker, FindingKind.OFFSET_GAP, settings)) is not is_compacted


def test_a_log_that_is_compacted_while_it_is_looked_at_may_lack_offsets(broker: BrokerDir) -> None:
    """The cleaner's checkpoint is written after the segments are in their places."""
    broker.tell(topic_record("orders", TOPIC_ID), partition_record())
    write_gap(broker)
    assert found(broker, FindingKind.OFFSET_GAP)
    verification = Verification(broker.files, [Path(broker.path)])
    with broker.files.open_writing(f"{broker.path}/cleaner-offset-checkpoint", create=True) as file:
        file.write_at(0, [b"0\n1\norders 0 6\n"])
    assert [each for each in verification.run(lambda: None) if each.kind is FindingKind.OFFSET_GAP] == []


def write_gap(broker: BrokerDir) -> None:
    with broker.files.open_writing(f"{broker.path}/orders-0/{0:020d}.log") as file:
        for offset in (0, 5):
            (batch,) = batches_of_rows([(1, b"k", b"v", ())], base_offset=offset)
            file.write_at(file.size_bytes(), [batch])
