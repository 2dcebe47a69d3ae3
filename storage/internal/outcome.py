"""The outcome of reading a key or a value of an internal topic: a message, or its bytes with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from storage.errors import MalformedRecordsError
from storage.record.kernel.message_reader import read_message

if TYPE_CHECKING:
    from storage.internal.definitions import Definition, Release
    from storage.record.kernel.message_schema import MessageSchema

Fields: TypeAlias = dict[str, Any]
"""The fields of a key or a value, by the names that Kafka's schemas give them."""


class Message(NamedTuple):
    """A message that was read: every field of its version by Kafka's JSON names, absent ones with their defaults.

    Values are int, float, bool, str, bytes, UUID, list, dict and None. `_unknownTaggedFields` holds tagged fields that
    no known version has, and `rest` the bytes after the message, so that nothing is lost.
    """

    definition: Definition
    version: int
    fields: Fields
    rest: bytes = b""

    @property
    def name(self) -> str:
        """The name of the definition, such as `OffsetCommitValue`."""
        return self.definition.name

    def stated(self, release: Release = "4") -> dict[str, Any]:
        """Return the fields that this release's JSON shows, in its order; not tagged fields with their defaults."""
        version = min(self.version, self.definition.newest_version)
        return self.definition.schema(version, release).stated(self.fields)


class Raw(NamedTuple):
    """Bytes that could not be read, with their type and version as far as they state them, and the reason."""

    data: bytes
    type: int | None
    version: int | None
    reason: str


Outcome: TypeAlias = Message | Raw


def read(definition: Definition, schema: MessageSchema, version: int, data: bytes, position: int) -> Outcome:
    """Read the message of a known version at a position."""
    try:
        fields, end = read_message(schema, data, position)
    except MalformedRecordsError as error:
        return Raw(data, definition.api_key, version, f"{definition.name} version {version} cannot be read: {error}")
    return Message(definition, version, fields, data[end:])


def unknown_version(definition: Definition, version: int, data: bytes) -> Raw:
    """Return the outcome for an unknown version."""
    reason = f"{definition.name} has no version {version} here; the newest is {definition.newest_version}"
    return Raw(data, definition.api_key, version, reason)
