"""The schema tables of Kafka's internal topics, as storage/internal has them, from what the generated classes say.

A table is a JSON file of Kafka's own message definitions: fields with their types and the versions that have them. It
is made of the newest 4 and of 3.9: what both have is as in 4, whose versions and tagged fields include those of 3.9.
Where 3.9 has less, the table says so: "in39" has the versions of a message there, or false; a field that 3.9 lacks in
a version that it reads has "in39": false.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from real_kafka import FailedError, java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from real_kafka.release import Release

Node = dict[str, Any]
SOURCES = Path(__file__).parent.parent / "kafka-schemas"
GROUP = "org.apache.kafka.coordinator.group.generated."
MESSAGE = "org.apache.kafka.common.message."
CONTROL_TYPES = {
    "EndTxnMarker": 1,
    "LeaderChangeMessage": 2,
    "SnapshotHeaderRecord": 3,
    "SnapshotFooterRecord": 4,
    "KRaftVersionRecord": 5,
    "VotersRecord": 6,
}
TABLES = {
    "offsets": [GROUP],
    "consumer_protocol": [f"{MESSAGE}ConsumerProtocolSubscription", f"{MESSAGE}ConsumerProtocolAssignment"],
    "transactions": ["org.apache.kafka.coordinator.transaction.generated."],
    "shares": ["org.apache.kafka.coordinator.share.generated."],
    "metadata": ["org.apache.kafka.common.metadata."],
    "control": [MESSAGE + name for name in CONTROL_TYPES],
    "remote_logs": ["org.apache.kafka.server.log.remote.metadata.storage.generated.Remote"],
}
"""Each table, and the packages or classes that are in it."""
LEGACY = {"LegacyOffsetCommitKey", "LegacyOffsetCommitValue"}
"""4's names for version 0 of what 3.9 calls OffsetCommitKey and OffsetCommitValue, which say the same and more."""
ONLY_IN_39 = {"ShareGroupPartitionMetadataKey": 9, "ShareGroupPartitionMetadataValue": 9}
"""What 4 has no longer, with its type: the classes of groups in 3.9 do not tell it."""
NATURAL = (0, 0.0, "", False, "AAAAAAAAAAAAAAAAAAAAAA")
"""Defaults that need not be said."""


def described(release: Release) -> list[Node]:
    """What the generated classes of a release say, a message each."""
    packages = sorted({name.removesuffix("Remote") for names in TABLES.values() for name in names})
    classes = java.compiled(release, SOURCES)
    command = java.command(
        release, "Schemas", *packages, log_level="WARN", settings=[java.QUICK_START], classes=[classes]
    )
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise FailedError(f"Kafka {release.version} does not tell its schemas:\n{answer.stderr}")
    return [json.loads(line) for line in answer.stdout.splitlines()]


def tables(newest: Sequence[Node], of_39: Sequence[Node]) -> dict[str, str]:
    """The text of each table's file."""
    older = {node["class"]: node for node in of_39}
    latest = {node["class"] for node in newest}
    messages: list[Node] = [_message(node, older.get(node["class"])) for node in newest if node["name"] not in LEGACY]
    messages += [_message(node, node) | {"in4": False} for node in of_39 if node["class"] not in latest]
    texts = {}
    for table, names in TABLES.items():
        chosen = [message for message in messages if message["class"].startswith(tuple(names))]
        texts[table] = _text(sorted(chosen, key=lambda message: (message.get("apiKey", 0), message["name"])))
    return texts


def _message(node: Node, older: Node | None) -> Node:
    low, high = node["lowest"], node["highest"]
    schemas = {int(version): fields for version, fields in node["schemas"].items()}
    message: Node = {"name": node["name"], "class": node["class"]}
    key = _api_key(node)
    if key is not None:
        message["apiKey"] = key
        # Until 4 the version of a key was its type; on the wire it is one number in any case.
        if node["name"].endswith("Key") and low == high:
            schemas, low, high = {0: schemas[high]}, 0, 0
    message["validVersions"] = _range([*range(low, high + 1)], None)
    flexible = [version for version, fields in schemas.items() if _tagged(fields) is not None]
    message["flexibleVersions"] = _range(flexible, high)
    older_schemas = {int(version): fields for version, fields in older["schemas"].items()} if older else {}
    if older_schemas and node["name"].endswith("Key"):
        older_schemas = {0: older_schemas[max(older_schemas)]}
    if set(older_schemas) != set(schemas):
        message["in39"] = _range(sorted(older_schemas), None) if older_schemas else False
    message["fields"] = list(_fields(node["fields"], schemas, older_schemas))
    return message


def _api_key(node: Node) -> int | None:
    if node["name"] in CONTROL_TYPES:
        return CONTROL_TYPES[node["name"]]
    if node["apiKey"] >= 0:
        return int(node["apiKey"])
    return ONLY_IN_39.get(node["name"])


def _fields(
    declared: Sequence[Node], schemas: Mapping[int, list[Node]], older: Mapping[int, list[Node]]
) -> Iterator[Node]:
    """The fields of a structure, in the order of its definition, with the versions that have them."""
    last = max(schemas)
    for field in declared:
        found = {version: wire for version, fields in schemas.items() if (wire := _named(fields, field["name"]))}
        if not found:
            continue  # the links of a collection, which are no fields
        wire = found[max(found)]
        made: Node = {"name": field["name"], "type": _type(wire, field), "versions": _range(sorted(found), last)}
        if nullable := [version for version, each in found.items() if each["nullable"]]:
            made["nullableVersions"] = _range(sorted(nullable), last)
        if tagged := [version for version, each in found.items() if "tag" in each]:
            made |= {"taggedVersions": _range(sorted(tagged), last), "tag": wire["tag"]}
        if field["default"] is None or field["default"] not in NATURAL:
            made["default"] = field["default"]
        if any(version in older and not _named(older[version], field["name"]) for version in found):
            made["in39"] = False
        if inner := {version: fields for version, each in found.items() if (fields := _inner(each)) is not None}:
            older_inner = {
                version: _inner(each) or []
                for version, fields in older.items()
                if (each := _named(fields, field["name"]))
            }
            made["fields"] = list(_fields(field["fields"], inner, older_inner))
        yield made


def _tagged(fields: Sequence[Node]) -> list[Node] | None:
    """The tagged fields of a structure; None where its version has no room for them."""
    return next((field["fields"] for field in fields if field["type"] == "TAGGED_FIELDS"), None)


def _named(fields: Sequence[Node], name: str) -> Node | None:
    """The field on the wire, where names are written in snake case."""
    plain = name.lower()
    for field in [*fields, *(_tagged(fields) or [])]:
        if field.get("name", "").replace("_", "") == plain:
            return field
    return None


def _inner(wire: Node) -> list[Node] | None:
    while "element" in wire:
        wire = wire["element"]
    return wire.get("fields")


def _type(wire: Node, field: Node) -> str:
    if "element" in wire:
        return "[]" + _type(wire["element"], field)
    if wire["type"] == "STRUCT":
        return str(field["struct"])
    name = wire["type"].removeprefix("COMPACT_").removeprefix("NULLABLE_").lower()
    return {"boolean": "bool"}.get(name, name)


def _range(versions: Sequence[int], last: int | None) -> str:
    """Versions as Kafka's definitions write them: `0+` goes on, `1` is one, `none` is none."""
    if not versions:
        return "none"
    low, high = min(versions), max(versions)
    if sorted(versions) != [*range(low, high + 1)]:
        raise FailedError(f"versions with a hole are not foreseen: {versions}")
    if high == last:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"


def _text(messages: Sequence[Node]) -> str:
    """The file: an object a message, a line a field."""
    return "[\n" + ",\n".join(_block(message, 1) for message in messages) + "\n]\n"


def _block(node: Node, depth: int) -> str:
    margin = "  " * depth
    head = {name: value for name, value in node.items() if name != "fields"}
    line = margin + json.dumps(head)[:-1]
    if "fields" not in node:
        return line + "}"
    if not node["fields"]:
        return line + ', "fields": []}'
    inner = ",\n".join(_block(field, depth + 1) for field in node["fields"])
    return f'{line}, "fields": [\n{inner}\n{margin}]}}'
