"""Damaged and hostile internal records are read within their bounds, and nothing is raised for what they are.

KAFKAFS_INTERNAL_MUTATIONS says how many mutated records are tried; `scripts/prove internal` tries 100,000.
"""

from __future__ import annotations

import os
import random
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from internal_messages import TABLES, random_fields
from internal_mutations import LENGTHS, mutated

from storage.errors import InvalidRecordError, MalformedRecordsError
from storage.internal import (
    Message,
    Raw,
    consumer_protocol,
    control,
    metadata,
    offsets,
    remote_logs,
    shares,
    transactions,
)
from storage.internal.definitions import table
from storage.record.kernel.message_reader import read_message
from storage.record.kernel.message_schema import MessageSchema
from storage.record.kernel.message_writer import write_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.internal import Outcome

MUTATIONS = int(os.environ.get("KAFKAFS_INTERNAL_MUTATIONS", "4000"))
SEED = int(os.environ.get("KAFKAFS_INTERNAL_SEED", "12"))
MEMORY_BYTES_MAX = 200_000_000


def sound_records(chance: random.Random) -> Iterator[tuple[str, bytes, bytes]]:
    """For each message once: its table, and the key and value of a record that it belongs to."""
    for name in TABLES:
        for definition in table(name):
            version = chance.choice([*filter(definition.knows, range(definition.newest_version + 1))])
            body = write_message(definition.schema(version), random_fields(chance, definition.schema(version)))
            number = struct.pack(">h", version)
            if name in {"metadata", "remote_logs"}:
                yield name, b"", bytes([1, definition.api_key or 0, version]) + body
            elif name == "consumer_protocol":
                yield name, b"", number + body
            elif name == "control":
                yield name, control.encode_key(definition.api_key), number * (definition.api_key == 1) + body
            else:
                head = struct.pack(">h", definition.api_key)
                yield (name, head + body, number) if definition.name.endswith("Key") else (name, head, number + body)


READERS: dict[str, Callable[[bytes, bytes], tuple[Outcome | None, ...]]] = {
    "offsets": lambda key, value: offsets.decode(key, value)[1:],
    "transactions": lambda key, value: transactions.decode(key, value)[1:],
    "shares": lambda key, value: shares.decode(key, value)[1:],
    "metadata": lambda _, value: (metadata.decode(value),),
    "remote_logs": lambda _, value: (remote_logs.decode(value),),
    "control": lambda key, value: (control.decode(key, value),),
    "consumer_protocol": lambda _, value: (
        consumer_protocol.decode_subscription(value),
        consumer_protocol.decode_assignment(value),
    ),
}


def test_mutated_records_are_messages_or_raw() -> None:
    chance = random.Random(SEED)
    done, seen = 0, {Message: 0, Raw: 0, type(None): 0}
    while done < MUTATIONS:
        for name, key, value in sound_records(chance):
            for outcome in READERS[name](mutated(chance, key), mutated(chance, value)):
                seen[type(outcome)] += 1
                if isinstance(outcome, Message) and name != "consumer_protocol":
                    assert_is_written_back(outcome)
            done += 1
    print(f"{done} records: {seen[Message]} messages, {seen[Raw]} raw")
    assert min(seen[Message], seen[Raw]) > done // 10


def assert_is_written_back(message: Message) -> None:
    """What was read can be written, and is then read and written back without a change."""
    schema = message.definition.schema(message.version)
    message.stated()
    message.stated("3.9")
    try:
        written = write_message(schema, message.fields)
    except InvalidRecordError as error:
        if "is there twice" in error.reason:  # Kafka writes no tag twice
            return
        raise
    again, end = read_message(schema, written)
    assert (write_message(schema, again), end) == (written, len(written))


def unsigned(value: int) -> bytes:
    """Four bytes of a varint, which need not be the shortest form."""
    return bytes([value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128, value >> 21])


def peak_of_refusing(schema: MessageSchema, data: bytes) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRecordsError, match="the record has too many fields"):
            read_message(schema, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", TABLES)
def test_a_few_bytes_make_no_long_list(name: str, length: bytes) -> None:
    """A count is believed only as far as there are bytes for so many elements."""
    chance = random.Random(SEED)
    sound = [each for each in sound_records(chance) if each[0] == name]
    tracemalloc.start()
    try:
        for _, key, value in sound:
            for place in range(min(len(value), 60)):
                READERS[name](key, value[:place] + length)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("kind", "element", "inner"),
    [
        ("[]int8", b"\7", None),
        ("[]string", b"\1", None),
        ("[]struct", b"\0", ()),
        ("[]struct", b"\1\0", (("name", "string", False, None, "", None),)),
        ("[]struct", b"\1\1\1\0", tuple((name, "[]int8", False, None, [], None) for name in "abc")),
    ],
)
def test_a_large_record_takes_no_more_than_it_may(kind: str, element: bytes, inner: tuple | None) -> None:
    struct_schema = None if inner is None else MessageSchema(inner, flexible=True)
    schema = MessageSchema((("list", kind, False, None, [], struct_schema),), flexible=True)
    count = 8 * 1024 * 1024 // len(element)
    assert peak_of_refusing(schema, unsigned(count + 1) + element * count + b"\0") < MEMORY_BYTES_MAX


def test_many_tagged_fields_take_no_more_than_they_may() -> None:
    count = 2 * 1024 * 1024
    assert peak_of_refusing(MessageSchema((), flexible=True), unsigned(count) + b"\5\0" * count) < MEMORY_BYTES_MAX
