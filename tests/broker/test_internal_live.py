"""What running brokers write into internal topics is read to its last byte, written back equal, and dumped alike."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from real_brokers import releases

from kafkafs.cli import main
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.record_decoders import InternalTopic, decoder_of, topic_of
from kafkafs.dump.text import TextForm
from storage.files import Files
from storage.internal import Message, control, metadata, offsets, shares, transactions
from storage.internal.definitions import table
from storage.record import RecordBatch, read_batches
from storage.record.kernel.message_reader import UNKNOWN_TAGGED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from real_brokers import Broker, RealKafka

    from storage.internal import Outcome, Release
    from storage.record import Record

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}
OF_4 = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.enable": "true",
}
DECODERS = {
    InternalTopic.OFFSETS: "--offsets-decoder",
    InternalTopic.TRANSACTIONS: "--transaction-log-decoder",
    InternalTopic.METADATA: "--cluster-metadata-decoder",
    InternalTopic.SHARES: "--share-group-state-decoder",
    InternalTopic.REMOTE_LOGS: "--remote-log-metadata-decoder",
}
UNREAD = re.compile(r"Unknown record type|Unknown metadata id|Failed to deserialize record")
"""What the tool of 3.9 says of a record that it does not know."""
KEYED = {offsets.TOPIC: offsets, shares.TOPIC: shares, transactions.TOPIC: transactions}


@pytest.mark.parametrize("version", releases("4"))
def test_internal_topics_of_a_running_broker_are_read(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    settings = SETTINGS | (OF_4 if version == "4" else {"group.coordinator.rebalance.protocols": "classic,consumer"})
    with real_kafka.broker(tmp_path / "one", settings, version=version) as broker:
        work(real_kafka, broker, version)
        broker.stop()
        log_dir = broker.log_dirs[0]
    dumped = dumped_alike(real_kafka, log_dir, version)
    print(*dumped)
    known = {InternalTopic.OFFSETS, InternalTopic.TRANSACTIONS, InternalTopic.METADATA}
    assert {topic_of(str(path)) for path in dumped} == known | ({InternalTopic.SHARES} if version == "4" else set())
    for path in (each for each in dumped if each.parent.name.startswith("__")):
        assert twin(path) == [
            newer if UNREAD.search(older) or is_of_4(newer) else older for older, newer in both(real_kafka, path)
        ], path
    names = written(log_dir)
    print(*names.items(), sep="\n")
    expected = {"OffsetCommitValue", "GroupMetadataValue", "ConsumerGroupCurrentMemberAssignmentValue"}
    assert expected <= names[offsets.TOPIC].keys()
    assert {"TopicRecord", "PartitionRecord", "ConfigRecord", "FeatureLevelRecord", "SnapshotHeaderRecord"} <= names[
        metadata.TOPIC
    ].keys()
    assert "TransactionLogValue" in names[transactions.TOPIC]
    if version == "4":
        assert "ShareGroupStatePartitionMetadataValue" in names[offsets.TOPIC]
        assert "ShareSnapshotValue" in names[shares.TOPIC]


@pytest.mark.parametrize(
    ("version", "begins"),
    [
        ("3.9", {"bootstrap.checkpoint", "00000000000000000000-0000000000.checkpoint"}),
        ("4", {"00000000000000000000-0000000000.checkpoint"}),
    ],
)
def test_the_voters_of_a_new_quorum_are_read(
    real_kafka: RealKafka, tmp_path: Path, version: str, begins: set[str]
) -> None:
    """As a store is formatted for a quorum whose voters are records (KIP-853); since 4.4 one file has all records."""
    (tmp_path / "one.properties").write_text(
        "process.roles=broker,controller\nnode.id=7\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:19093\nlog.dirs={tmp_path / 'logs'}\n"
    )
    given = ("--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", tmp_path / "one.properties")
    real_kafka.tool("StorageTool", "format", *given, version=version)
    dumped = dumped_alike(real_kafka, tmp_path / "logs", version)
    assert {path.name for path in dumped} == begins
    names = written(tmp_path / "logs")[metadata.TOPIC]
    assert (names["KRaftVersionRecord"], names["VotersRecord"]) == (1, 1)


def work(real_kafka: RealKafka, broker: Broker, version: str) -> None:
    """Use the broker so that it writes records into every internal topic that it has."""
    to = ("--bootstrap-server", broker.bootstrap)

    def tool(name: str, *arguments: object, stdin: str = "") -> None:
        real_kafka.tool(name, *arguments, stdin=stdin, version=version)

    tool("TopicCommand", *to, "--create", "--topic", "orders", "--partitions", 2, "--config", "retention.ms=86400000")
    quota = ("--entity-type", "clients", "--entity-name", "c", "--add-config", "producer_byte_rate=1024")
    tool("ConfigCommand", *to, "--alter", *quota)
    amount = ("--num-records", 40, "--record-size", 10, "--throughput", -1)
    transaction = ("--transactional-id", "t", "--transaction-duration-ms", 1)
    properties = ("--producer-props", f"bootstrap.servers={broker.bootstrap}")
    tool("ProducerPerformance", "--topic", "orders", *amount, *transaction, *properties)
    for group, protocol in (("old", "classic"), ("new", "consumer")):
        options = ("--consumer-property", f"group.protocol={protocol}", "--group", group, "--max-messages", 3)
        tool("ConsoleConsumer", *to, "--topic", "orders", "--from-beginning", *options)
    tool("ConsumerGroupCommand", *to, "--delete-offsets", "--group", "old", "--topic", "orders")
    if version == "4":
        reset = (
            "--entity-type",
            "groups",
            "--entity-name",
            "shared",
            "--add-config",
            "share.auto.offset.reset=earliest",
        )
        tool("ConfigCommand", *to, "--alter", *reset)
        options = ("--group", "shared", "--max-messages", 3, "--timeout-ms", 60_000)
        tool("ConsoleShareConsumer", *to, "--topic", "orders", *options)


def dumped_alike(real_kafka: RealKafka, log_dir: Path, version: str) -> list[Path]:
    """The internal logs and snapshots of a store, all of which are dumped as the real tool's decoders print them."""
    release: Release = "4" if version == "4" else "3.9"
    paths = sorted(
        path for path in log_dir.rglob("*") if path.suffix in {".log", ".checkpoint"} and path.stat().st_size
    )
    by_topic: dict[InternalTopic, list[Path]] = {}
    for path in paths:
        if (topic := topic_of(str(path))) is not None:
            by_topic.setdefault(topic, []).append(path)
    for topic, found in by_topic.items():
        form = TextForm(decoder=decoder_of(topic, release), release=release)
        lines: list[str] = []
        for path in found:
            with Files().open_reading(path) as file:
                lines += [line.decode() for run in LogDump(file, form, Selection()) for line in run]
        assert real_kafka.dump(*found, options=[DECODERS[topic]], version=version).splitlines() == lines
    return [path for found in by_topic.values() for path in found]


def twin(path: Path) -> list[str]:
    """The lines of the file's twin in the tree, without the first ones, which name it."""
    topic, _, partition = path.parent.name.rpartition("-")
    done = CliRunner().invoke(main, ["cat", str(path.parent.parent), f"{topic}/{partition}/segments/{path.name}.txt"])
    assert done.exit_code == 0, done.output
    return records(done.stdout)


def is_of_4(line: str) -> bool:
    """Whether a line tells of a version of a record that 3.9 does not know."""
    if said := re.search(r' key: {"type":"(\d+)".* payload: {"version":"(\d+)"', line):
        pair = offsets.definitions(int(said[1]))
        return pair is not None and int(said[2]) not in pair[1].versions_39
    if said := re.search(r' payload: {"type":"(\w+)","version":(\d+)', line):
        [definition] = [each for each in table("metadata") if each.name.lower() == said[1].replace("_", "").lower()]
        return int(said[2]) not in definition.versions_39
    return False


def both(real_kafka: RealKafka, path: Path) -> Iterator[tuple[str, str]]:
    """The lines of the file as the tools of 3.9 and of 4 print them; of share groups' state only 4's can."""
    topic = topic_of(str(path))
    assert topic is not None
    texts = {
        version: records(real_kafka.dump(path, options=[DECODERS[topic]], version=version))
        for version in (("4",) if topic is InternalTopic.SHARES else ("3.9", "4"))
    }
    yield from zip(texts.get("3.9", texts["4"]), texts["4"], strict=True)


def records(text: str) -> list[str]:
    """The lines of a dump without those that name the file."""
    return [line for line in text.splitlines() if not line.startswith(("Dumping ", "Log starting", "Snapshot end"))]


def written(log_dir: Path) -> Mapping[str, Counter[str]]:
    """The names of the messages in each internal topic; each is read to its end, and written back equal."""
    found: dict[str, Counter[str]] = {}
    for topic in (*KEYED, metadata.TOPIC):
        counts = found.setdefault(topic, Counter())
        for path in sorted(log_dir.glob(f"{topic}-*/*")):
            if path.suffix not in {".log", ".checkpoint"}:
                continue
            for batch in read_batches(path.read_bytes()):
                assert isinstance(batch, RecordBatch)
                for record in batch.records():
                    counts.update(message.name for message in messages(topic, batch, record))
    return found


def messages(topic: str, batch: RecordBatch, record: Record) -> Iterator[Message]:
    """The messages of a record, each checked."""
    key, value = record.key, record.value
    if batch.is_control:
        record_type = control.control_type(key)
        assert record_type is not None
        said = whole(control.decode(key, value))
        assert control.encode_value(record_type, said.version, said.fields) == value
        yield said
    elif topic == metadata.TOPIC:
        assert value is not None
        said = whole(metadata.decode(value))
        assert said.definition.api_key is not None
        assert metadata.encode(said.definition.api_key, said.version, said.fields) == value
        yield said
    else:
        read = KEYED[topic].decode(key, value)
        assert read.type is not None
        said = whole(read.key)
        assert KEYED[topic].encode_key(read.type, said.fields) == key
        yield said
        if value is not None:
            said = whole(read.value)
            assert KEYED[topic].encode_value(read.type, said.version, said.fields) == value
            yield said


def whole(outcome: Outcome | None) -> Message:
    """A message without unknown parts."""
    assert isinstance(outcome, Message), outcome
    assert outcome.rest == b""
    assert UNKNOWN_TAGGED_FIELDS not in repr(outcome.fields)
    return outcome
