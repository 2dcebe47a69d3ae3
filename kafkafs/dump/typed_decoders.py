"""The decoders of topics whose values tell their type: the metadata log and its snapshots, and remote log metadata.

The text is that of the real tool's parsers. Where that prints what Java says of a value that it cannot read, the reason
here is ours.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kafkafs.dump.decoded import is_readable_as, message_json, side
from kafkafs.dump.remote_log_text import event_text
from storage.internal import Message, Raw, metadata, remote_logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.internal import Definition, Outcome, Release
    from storage.record import Record

_PREVIEW_FRAME: Final = (
    "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release of KRaft"
    " in 2.8 to newer versions are not supported."
)
_VARINT_BITS_MAX: Final = 28
_ONE_BYTE: Final = 0x80
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


class MetadataDecoder:
    """The decoder of `__cluster_metadata`.

    With `is_newer_shown`, the text of a record of a type or a version that only 4 knows is that of 4's tool.
    """

    def __init__(self, release: Release, *, is_newer_shown: bool = False) -> None:
        self._release: Release = release
        self._newer = MetadataDecoder("4") if is_newer_shown else None

    def text(self, record: Record) -> str:
        """Return the text after the record's header keys."""
        message = metadata.decode(record.value or b"")
        if self._newer is not None and isinstance(message, Message) and _is_newer(message):
            return self._newer.text(record)
        failure = _failure(message, metadata.definition, self._release)
        if failure is not None or isinstance(message, Raw):
            return f" payload: Error at {record.offset}, skipping. {failure}"
        data = message_json(message, self._stated(message))
        return f' payload: {{"type":"{_type_name(message.name)}","version":{message.version},"data":{data}}}'

    def members(self, record: Record) -> str:
        """The key, which brokers leave out, and the value as an object."""
        return _members(record, None if record.value is None else metadata.decode(record.value))

    def _stated(self, message: Message) -> dict[str, Any]:
        definition = message.definition
        known = definition.versions_39 if self._release == "3.9" else definition.versions
        return definition.schema(min(message.version, known[-1]), self._release).stated(message.fields)


class RemoteLogDecoder:
    """The decoder of `__remote_log_metadata`, whose records are the same in both releases."""

    def __init__(self, release: Release) -> None:
        self._release = release

    def text(self, record: Record) -> str:
        """Return the text after the record's header keys."""
        failed = f" payload: Error at offset {record.offset}, skipping. "
        if record.value is None:
            return f"{failed}The value is missing."
        message = remote_logs.decode(record.value)
        failure = _failure(message, remote_logs.definition, self._release)
        if failure is not None or isinstance(message, Raw):
            return f"{failed}{failure}"
        try:
            return f" payload: {event_text(message, self._release)}"
        except ValueError as error:
            return f"{failed}{error}"

    def members(self, record: Record) -> str:
        """The key, which brokers leave out, and the value as an object."""
        return _members(record, None if record.value is None else remote_logs.decode(record.value))


def _is_newer(message: Message) -> bool:
    """True if 4 knows the message's version and 3.9 does not."""
    definition = message.definition
    return message.version in definition.versions and message.version not in definition.versions_39


def _failure(outcome: Outcome, definition_of: Callable[[int], Definition | None], release: Release) -> str | None:
    """Return why the release cannot read the value, in the words of its tool; None if it can."""
    if outcome.version is None:
        assert isinstance(outcome, Raw)
        return _unframed(outcome.data)
    record_type = outcome.type if isinstance(outcome, Raw) else outcome.definition.api_key
    definition = None if record_type is None else definition_of(record_type)
    known = range(0) if definition is None else definition.versions_39 if release == "3.9" else definition.versions
    if not known:
        return f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {record_type}"
    if isinstance(outcome, Raw) or not is_readable_as(outcome, known):
        return f"Failed to deserialize record with type {record_type}"
    return f"Found {len(outcome.rest)} byte(s) of garbage after {record_type}" if outcome.rest else None


def _unframed(data: bytes) -> str:
    """Return what is wrong with a value whose frame, type or version is cut short, or whose frame is unknown."""
    position = 0
    for part in ("frame version", "type", "version"):
        number, shift = 0, 0
        while True:
            if position == len(data) or shift > _VARINT_BITS_MAX:
                return f"Error while reading {part}"
            byte = data[position]
            number |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if byte < _ONE_BYTE:
                break
        if part == "frame version" and number == 0:
            return _PREVIEW_FRAME
        if part == "frame version" and number != 1:
            return (
                f"Could not deserialize metadata record due to unknown frame version {number}"
                "(only frame version 1 is supported)"
            )
    raise AssertionError(data)


def _members(record: Record, value: Outcome | None) -> str:
    key = None if record.key is None else Raw(record.key, None, None, "keys have no meaning in this topic")
    return f'"key":{side(key)},"value":{side(value)}'


@cache
def _type_name(name: str) -> str:
    return _WORD.sub("_", name).upper()
