"""The schema tables of internal topics are Kafka's own; Kafka reads what we write, and we read what Kafka writes."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from internal_messages import TABLES, as_json, random_fields, versions

from storage.internal.definitions import table
from storage.record.kernel.message_reader import UNKNOWN_TAGGED_FIELDS, read_message
from storage.record.kernel.message_writer import write_message

if TYPE_CHECKING:
    from real_brokers import RealKafka

    from storage.internal import Definition, Release
    from storage.record.kernel.message_schema import MessageSchema

SCHEMAS = Path(__file__).parents[2] / "storage" / "internal" / "schemas"
VALUES = int(os.environ.get("KAFKAFS_INTERNAL_VALUES", "20"))
"""How many values of each version; `scripts/prove internal` takes many more."""

LEGACY = {"LegacyOffsetCommitKey", "LegacyOffsetCommitValue"}
"""4's names for what 3.9 calls version 0 of OffsetCommitKey and OffsetCommitValue."""
BEFORE_4 = {"ShareGroupMetadataValue"}
"""What 3.9 had as a preview, in a form that 4 gave up."""
ONLY_IN_39 = {"ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"}
ELSEWHERE = {"ProducerSnapshot", "QuorumStateData"}
"""Messages that lie in the same packages and in no internal topic."""


def test_the_tables_are_those_of_the_two_releases(real_kafka: RealKafka, tmp_path: Path) -> None:
    """If a newer 4 has more, `scripts/kafka schemas` takes it in."""
    real_kafka.run("schemas", tmp_path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        file.name: file.read_text() for file in SCHEMAS.iterdir()
    }


@pytest.mark.parametrize("release", ["3.9", "4"])
def test_each_version_is_on_the_wire_as_the_release_says(real_kafka: RealKafka, release: Release) -> None:
    ours = {definition.java_class: definition for name in TABLES for definition in table(name)}
    compared = set()
    for line in real_kafka.run("schemas", "--version", release).splitlines():
        theirs = json.loads(line)
        if theirs["name"] in LEGACY | ELSEWHERE | (BEFORE_4 if release == "3.9" else set()):
            continue
        definition = ours[theirs["class"]]
        expected = {int(version): fields for version, fields in theirs["schemas"].items()}
        if theirs["name"].endswith("Key"):
            # Until 4 the version of a key was its type, and a key of two types had two equal versions.
            first, *others = expected.values()
            assert all(fields == first for fields in others)
            expected = {0: first}
        assert [*(definition.versions if release == "4" else definition.versions_39)] == [*expected], definition.name
        for version, fields in expected.items():
            schema = definition.schema(version, release)
            assert _wire(schema, release) == _told(fields), (definition.name, version)
        compared.add(theirs["class"])
    known = {name for name, definition in ours.items() if release == "4" or definition.versions_39}
    missing = {name.rpartition(".")[2] for name in known - compared}
    assert missing == (
        {"ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"} if release == "4" else BEFORE_4
    )


def _wire(schema: MessageSchema, release: Release) -> list[Any]:
    """A schema's fields in their order on the wire, then the tagged ones by their tags."""
    fields = [_described(schema.flexible, release, *each) for each in schema.definition]
    plain = [field for field in fields if field[1] is None]
    tagged = sorted((field for field in fields if field[1] is not None), key=lambda field: field[1])
    return [plain, tagged if schema.flexible else None]


def _described(flexible: bool, release: Release, *field: Any) -> tuple[Any, ...]:
    name, kind, nullable, tag, _, inner = field
    scalar = kind.removeprefix("[]")
    compact = scalar in {"string", "bytes"} and flexible
    if scalar == "struct" and not kind.startswith("[]") and release == "3.9":
        nullable = False  # its schemas cannot say it of a structure
    told = f"compact_{scalar}" if compact else "boolean" if scalar == "bool" else scalar
    shape = (("compact_array" if flexible else "array"), told) if kind.startswith("[]") else (told,)
    return name.lower(), tag, nullable, shape, _wire(inner, release) if inner is not None else None


def _told(fields: list[Any]) -> list[Any]:
    """The same of what the real classes say."""
    section = next((field["fields"] for field in fields if field["type"] == "TAGGED_FIELDS"), None)
    plain = [_told_field(field) for field in fields if field["type"] != "TAGGED_FIELDS"]
    return [plain, None if section is None else [_told_field(field) for field in section]]


def _told_field(field: dict[str, Any]) -> tuple[Any, ...]:
    element = field.get("element", field)
    scalar = element["type"].replace("NULLABLE_", "").lower()
    shape = (field["type"].lower(), scalar) if "element" in field else (scalar,)
    inner = _told(element["fields"]) if scalar == "struct" else None
    return field["name"].replace("_", ""), field.get("tag"), field["nullable"], shape, inner


@pytest.mark.parametrize("release", ["3.9", "4"])
def test_kafka_reads_what_we_write_and_we_what_kafka_writes(real_kafka: RealKafka, release: Release) -> None:
    chance = random.Random(int(os.environ.get("KAFKAFS_INTERNAL_SEED", "12")))
    sent: list[tuple[Definition, int, dict[str, Any], bytes]] = []
    for definition, version in versions():
        if version not in (definition.versions if release == "4" else definition.versions_39):
            continue
        if release == "3.9" and definition.name in BEFORE_4:
            continue
        schema = definition.schema(version, release)
        for _ in range(VALUES):
            fields = random_fields(chance, schema)
            sent.append((definition, version, fields, write_message(schema, fields)))
    lines = [f"{definition.java_class} {version} {data.hex()}" for definition, version, _, data in sent]
    answers = real_kafka.run("reread", "--version", release, stdin="\n".join(lines)).splitlines()
    assert len(answers) == len(sent)
    for (definition, version, fields, data), answer in zip(sent, answers, strict=True):
        left, _, rest = answer.partition(" ")
        again, _, text = rest.partition(" ")
        assert (left, again) == ("0", data.hex()), (definition.name, version, fields, answer)
        schema = definition.schema(version, release)
        read, end = read_message(schema, bytes.fromhex(again))
        assert (read, end) == (fields, len(data))
        shown = as_json(schema.stated(fields))
        assert (json.loads(text), list(json.loads(text))) == (shown, list(shown)), (definition.name, version)
        assert UNKNOWN_TAGGED_FIELDS not in text
