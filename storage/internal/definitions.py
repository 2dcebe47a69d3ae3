"""Kafka's message definitions from the tables in `schemas/`, and the schemas of their versions.

A table is read when it is first needed, and a version's schema is made when it is first used, so that importing this
room costs nothing. The tables come from Kafka's own classes: `scripts/kafka schemas` writes them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from storage.errors import InvalidRecordError
from storage.ids import ZERO_ID, parse_id
from storage.record.kernel.message_schema import MessageSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

Release: TypeAlias = Literal["3.9", "4"]
Node: TypeAlias = dict[str, Any]

_TABLES: Final = Path(__file__).with_name("schemas")
_DEFAULTS: Final[dict[str, object]] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": ZERO_ID}
_SCALARS: Final = {"int8", "int16", "uint16", "int32", "uint32", "int64", *_DEFAULTS}


class Definition:
    """A message as Kafka defines it: `name`, `api_key` (its type; None where it has none), and its versions.

    `versions` are those that Kafka 4 reads, `versions_39` those that Kafka 3.9 reads; either may be empty. `java_class`
    is the class that the definition came from.
    """

    def __init__(self, node: Node) -> None:
        self.name: str = node["name"]
        self.api_key: int | None = node.get("apiKey")
        self.java_class: str = node["class"]
        known = _versions(node["validVersions"], -1)
        self.versions = known if node.get("in4", True) else range(0)
        stated = node.get("in39", True)
        self.versions_39 = known if stated is True else _versions(stated, -1) if stated else range(0)
        self._readable = known
        self._flexible = _versions(node["flexibleVersions"], known[-1])
        self._fields: list[Node] = node["fields"]
        self._schemas: dict[tuple[int, Release], MessageSchema] = {}

    @property
    def newest_version(self) -> int:
        """The newest known version."""
        return self._readable[-1]

    def knows(self, version: int) -> bool:
        """Return True if this version can be read and written."""
        return version in self._readable

    def schema(self, version: int, release: Release = "4") -> MessageSchema:
        """Return the schema of a version in that release; versions that only 3.9 has are the same for both.

        Raises `InvalidRecordError` for a version that is not known.
        """
        found = self._schemas.get((version, release))
        if found is None:
            if not self.knows(version):
                newest = self.newest_version
                raise InvalidRecordError(f"{self.name} has no version {version} here; the newest is {newest}")
            found = self._schemas[version, release] = _schema(self._fields, version, version in self._flexible, release)
        return found


@cache
def table(name: str) -> tuple[Definition, ...]:
    """Load all definitions of a table, such as `offsets`."""
    text = (_TABLES / f"{name}.json").read_text(encoding="utf-8")
    return tuple(Definition(node) for node in json.loads(text))


def _schema(fields: Sequence[Node], version: int, flexible: bool, release: Release) -> MessageSchema:
    chosen = []
    for field in fields:
        if version not in _versions(field["versions"], version):
            continue
        if release == "3.9" and not field.get("in39", True):
            continue
        kind = field["type"]
        inner = None
        if "fields" in field:
            inner = _schema(field["fields"], version, flexible, release)
            kind = "[]struct" if kind.startswith("[]") else "struct"
        nullable = version in _versions(field.get("nullableVersions", "none"), version)
        tag = field["tag"] if version in _versions(field.get("taggedVersions", "none"), version) else None
        chosen.append((field["name"], kind, nullable, tag, _default(field), inner))
    return MessageSchema(tuple(chosen), flexible=flexible)


def _default(field: Node) -> object:
    kind = field["type"]
    if "default" not in field:
        return [] if kind.startswith("[]") else _DEFAULTS.get(kind, 0) if kind in _SCALARS else {}
    stated: object = field["default"]
    if kind == "uuid" and isinstance(stated, str):
        return parse_id(stated)
    return stated


def _versions(text: str, last: int) -> range:
    """Parse a range of versions: `0+` up to `last`, `0-4`, `1`, `none`."""
    if text == "none":
        return range(0)
    low, _, high = text.partition("-")
    if low.endswith("+"):
        return range(int(low[:-1]), last + 1)
    return range(int(low), int(high or low) + 1)
