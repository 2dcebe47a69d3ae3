"""What verify makes of a store when its metadata log says what the cluster has."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from metadata_logs import NODE_ID, TOPIC_ID, BrokerDir, broker_setting, partition_record, topic_record, topic_setting

from storage.record import batches_of_rows
from storage.segment.finding import FindingKind, Severity
from storage.store.verify import Verification
from storage.testing.memory_files import MemoryFiles

OTHER_ID = UUID(int=99)


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
        ([topic_record("clicks")], "the id ERERESIiQzOERFVVVVVVVQ is that of the cluster's topic clicks"),
        ([topic_record("orders")], "the cluster's topic orders has no partition 0"),
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


def test_a_damaged_metadata_log_says_nothing_of_strays(broker: BrokerDir) -> None:
    broker.tell(topic_record("clicks", OTHER_ID), topic_record("orders"))
    path = f"{broker.path}/__cluster_metadata-0/{0:020d}.log"
    with broker.files.open_writing(path) as file:
        file.write_at(broker.files.read(path).index(b"orders"), [b"x"])
    assert found(broker, FindingKind.STRAY) == []
    assert found(broker, FindingKind.CHECKSUM)


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize("level", ["topic", "brokers", "server.properties"])
def test_a_compacted_topic_may_lack_offsets(broker: BrokerDir, *, is_compacted: bool, level: str) -> None:
    policy = "compact,delete" if is_compacted else "delete"
    told = {"topic": topic_setting("orders", "cleanup.policy", policy)}
    told["brokers"] = broker_setting("log.cleanup.policy", policy)
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
