"""The common part of the decoders of internal topics: their interface, and their JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkafs.dump.jackson import jackson, jackson_with_floats
from storage.internal import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.internal import Outcome
    from storage.record import Record

_WITH_FLOATS: Final = frozenset({"ClientQuotaRecord"})


class RecordDecoder(Protocol):
    """Shows the records of a topic; it never raises for their bytes."""

    def text(self, record: Record) -> str:
        """Return the text after the record's header keys, with a blank before it."""

    def members(self, record: Record) -> str:
        """Return the members `key` and `value` of an object, without the braces."""


def message_json(message: Message, fields: dict[str, Any]) -> str:
    """These fields of the message as Kafka's tools print them."""
    return jackson_with_floats(fields) if message.name in _WITH_FLOATS else jackson(fields)


def is_readable_as(message: Message, known: range) -> bool:
    """Return True if a tool that knows these versions reads the message: a newer one only without structures."""
    if message.version in known:
        return True
    lists = (value for value in message.fields.values() if isinstance(value, list))
    return not any(isinstance(each, dict) for value in lists for each in value)


def all_fields(message: Message) -> dict[str, Any]:
    """Return the fields that the newest release shows."""
    return message.stated()


def side(outcome: Outcome | None, fields: Callable[[Message], dict[str, Any]] = all_fields) -> str:
    """Return one side of a record as an object: the message, or the unread bytes and why; or null."""
    if outcome is None:
        return "null"
    if isinstance(outcome, Message):
        head = {"name": outcome.name, "type": outcome.definition.api_key, "version": outcome.version}
        rest = f',"rest":{jackson(outcome.rest)}' if outcome.rest else ""
        return f'{jackson(head)[:-1]},"data":{message_json(outcome, fields(outcome))}{rest}}}'
    told = {"type": outcome.type, "version": outcome.version, "reason": outcome.reason, "base64": outcome.data}
    return jackson({name: value for name, value in told.items() if value is not None})
