"""Records of every type and version of the internal topics, with values by chance, beside what the real tool prints.

Not compared are the words of Java's own errors: where a key or a value ends too early, the reason here is ours, and a
value that is missing has one that does not depend on the JVM.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import consumer_blobs
import pytest
from internal_messages import random_fields

from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.record_decoders import InternalTopic, decoder_of
from kafkafs.dump.text import TextForm
from storage.files import Files
from storage.internal import metadata, offsets, remote_logs, shares, transactions
from storage.internal.definitions import table
from storage.testing.batch_codec import OracleRecord, batch_of, encode_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    from real_brokers import RealKafka

    from storage.internal import Definition, Release

TIMES = 6
OPTIONS = {
    InternalTopic.OFFSETS: "--offsets-decoder",
    InternalTopic.TRANSACTIONS: "--transaction-log-decoder",
    InternalTopic.METADATA: "--cluster-metadata-decoder",
    InternalTopic.SHARES: "--share-group-state-decoder",
    InternalTopic.REMOTE_LOGS: "--remote-log-metadata-decoder",
}
MODULES: dict[InternalTopic, tuple[str, ModuleType]] = {
    InternalTopic.OFFSETS: ("offsets", offsets),
    InternalTopic.TRANSACTIONS: ("transactions", transactions),
    InternalTopic.SHARES: ("shares", shares),
    InternalTopic.METADATA: ("metadata", metadata),
    InternalTopic.REMOTE_LOGS: ("remote_logs", remote_logs),
}
CASES = [
    *((topic, "3.9") for topic in InternalTopic if topic is not InternalTopic.SHARES),
    *((topic, "4") for topic in InternalTopic),
]
FLOATS = (0.0, -0.0, 1.0, 1024.0, 1e7, 9999999.5, 1e-3, 9e-4, 1.5e300, 0.1, float("nan"), float("inf"), float("-inf"))
TEXT = "ä€𝄞".encode()
# Bytes that begin, continue or break characters in every way there is.
TELLING_BYTES = bytes.fromhex("00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5f8ff")
BROKEN_VALUES = ("", "0001", "0201", "8101", "016300", "010063", "01")
BROKEN_KEYS = ("", "00", "0063616263")
WORDS_OF_JAVA = re.compile(r"due to: .*|skipping\. (?:The value is missing\.|Cannot invoke .*)")

Pair = tuple[bytes | None, bytes | None]


@pytest.mark.parametrize(("topic", "release"), CASES, ids=lambda each: each if isinstance(each, str) else each.value)
def test_records_are_printed_as_by_the_real_tool(
    real_kafka: RealKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topic: InternalTopic,
    release: Release,
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log(topic, random.Random(13)))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")  # in which the JVM can print what it has read
    real = real_kafka.dump(path, options=[OPTIONS[topic]], version=release)
    with Files().open_reading(path) as file:
        dump = LogDump(file, TextForm(decoder=decoder_of(topic, release)), Selection())
        ours = "".join(line.decode() + "\n" for run in dump for line in run)
    # Reading a program's output as text makes one kind of line end of all.
    ours = ours.replace("\r\n", "\n").replace("\r", "\n")
    theirs, mine = ([WORDS_OF_JAVA.sub("", part) for part in text.split("\n| offset: ")] for text in (real, ours))
    assert len(mine) > 15
    assert mine == theirs


def log(topic: InternalTopic, chance: random.Random) -> bytes:
    name, module = MODULES[topic]
    is_keyed = topic not in (InternalTopic.METADATA, InternalTopic.REMOTE_LOGS)
    pairs = list(keyed(name, module, chance) if is_keyed else typed(name, module, chance))
    pairs += [broken for pair in pairs if (broken := with_broken_text(pair, chance)) != pair]
    key, value = next(pair for pair in pairs if pair[1])
    assert value is not None
    if topic is InternalTopic.TRANSACTIONS:  # on the other ones the tool of 3.9 dies
        pairs += [(bytes.fromhex(BROKEN_KEYS[-1]), value), (bytes.fromhex(BROKEN_KEYS[-1]), None)]
    elif is_keyed:
        pairs += [(bytes.fromhex(each), value) for each in BROKEN_KEYS]
        pairs += [(key, b""), (key, b"\0"), (key, value + b"rest"), (key, value[:-1]), (b"\0\1", value)]
    else:
        pairs += [(None, bytes.fromhex(each)) for each in BROKEN_VALUES]
        pairs += [(None, None), (None, value + b"rest"), (None, value[:-3]), (b"key", value)]
    records = [
        OracleRecord(offset=offset, timestamp=1, key=key, value=value) for offset, (key, value) in enumerate(pairs)
    ]
    return encode_batch(batch_of(records))


def versions(definition: Definition) -> Iterator[int]:
    return filter(definition.knows, range(definition.newest_version + 1))


def keyed(name: str, module: ModuleType, chance: random.Random) -> Iterator[Pair]:
    """Records of every type and version of value, one of them a tombstone."""
    for record_type in sorted({each.api_key for each in table(name) if each.api_key is not None}):
        key, value = module.definitions(record_type)
        for version in versions(value):
            for number in range(TIMES):
                key_bytes = module.encode_key(record_type, random_fields(chance, key.schema(0)))
                fields = random_fields(chance, value.schema(version))
                if value.name == "GroupMetadataValue":
                    set_group(fields, chance)
                elif value.name == "TransactionLogValue":
                    set_transaction(fields, chance)
                yield key_bytes, module.encode_value(record_type, version, fields) if number else None


def typed(name: str, module: ModuleType, chance: random.Random) -> Iterator[Pair]:
    """Values of every type and version."""
    for definition in table(name):
        for version in versions(definition):
            for number in range(TIMES * 2):
                fields = random_fields(chance, definition.schema(version))
                if definition.name == "ClientQuotaRecord":
                    fields["value"] = FLOATS[number % len(FLOATS)]
                if name == "remote_logs" and number:
                    set_remote_log(fields, chance)
                yield None, module.encode(definition.api_key, version, fields)


def set_group(fields: dict[str, Any], chance: random.Random) -> None:
    """Let members have blobs of consumers, some of a version that is not known."""
    fields["protocolType"] = chance.choice(["consumer", "consumer", "connect"])
    for member in fields["members"]:
        for definition in table("consumer_protocol"):
            side = definition.name.removeprefix("ConsumerProtocol").lower()
            version = chance.choice(list(versions(definition)))
            encode = getattr(consumer_blobs, f"encode_{side}")
            member[side] = encode(version, random_fields(chance, definition.schema(version)))
            if chance.random() < 0.2:
                member[side] = b"\0\x09" + member[side][2:] + b"more"
            elif chance.random() < 0.2:
                member[side] = member[side][: chance.randrange(3)]


def set_transaction(fields: dict[str, Any], chance: random.Random) -> None:
    """Give it a state that there is, and often many partitions."""
    fields["transactionStatus"] = chance.randrange(8)
    fields["transactionPartitions"] = [
        {
            "topic": chance.choice(["orders", f"t-{chance.randrange(99)}", "ä€𝄞", "a.b"]),
            "partitionIds": chance.choices(range(200), k=chance.choice([1, 2, 5, 30, 100])),
        }
        for _ in range(chance.choice([0, 1, 2, 5]))
    ]


def set_remote_log(fields: dict[str, Any], chance: random.Random) -> None:
    """Give it, mostly, values that Kafka's classes accept."""
    if chance.random() < 0.2:
        return
    fields |= {name: chance.randrange(4) for name in fields if name == "remoteLogSegmentState"}
    fields |= {name: chance.randrange(3) for name in fields if name == "remotePartitionDeleteState"}
    if "startOffset" in fields:
        start = chance.randrange(99)
        epochs = [{"leaderEpoch": chance.randrange(9), "offset": chance.randrange(99)} for _ in range(5)]
        fields |= {"startOffset": start, "endOffset": start + chance.randrange(99), "segmentLeaderEpochs": epochs}


def with_broken_text(pair: Pair, chance: random.Random) -> Pair:
    """The pair with other bytes, which are no UTF-8 mostly, in place of a text."""
    key, value = (
        None if data is None else data.replace(TEXT, bytes(chance.choices(TELLING_BYTES, k=len(TEXT)))) for data in pair
    )
    return key, value
