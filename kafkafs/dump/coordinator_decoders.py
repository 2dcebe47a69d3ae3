"""The decoders of topics that coordinators write: committed offsets and groups, transactions, share groups.

Their text is JSON, as the real tool's parser for coordinators' records prints it; for `__transaction_state`, 3.9 has a
decoder of its own. Where the real tool prints Java's words about a value that it cannot read, the reason is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkafs.dump.decoded import is_readable_as, side
from kafkafs.dump.jackson import jackson, jvm_encoded
from storage.internal import Message, Raw, TransactionState, consumer_protocol, offsets, shares, transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from types import ModuleType

    from kafkafs.dump.decoded import RecordDecoder
    from storage.internal import Definition, KeyedRecord, Outcome, Release
    from storage.record import Record

_TYPES_OF_39: Final = range(9)  # of `__consumer_offsets`; those of share groups came later
_BLOBS: Final = {
    "subscription": consumer_protocol.decode_subscription,
    "assignment": consumer_protocol.decode_assignment,
}
_STATUS: Final = "transactionStatus"
_STATES: Final = frozenset(TransactionState)
_TABLE_SIZE: Final = 16  # that Scala's hash sets begin with; at three quarters they grow to twice their size

_NAMES_CHARACTERS_MAX: Final = 32 * 1024 * 1024
"""Beyond any transaction of a broker, whose topics have short names: a record can name a long one again and again."""
_SMALL_SET_MAX: Final = 4  # more are a hash set themselves, and are added to one without a look at its load


class CoordinatorDecoder:
    """The decoder of one topic; `known_types` are those that the release's tool knows, all of them if it is None.

    The text of a record of a type or a version that it does not know is `newer`'s, if that is given.
    """

    def __init__(
        self,
        topic: ModuleType,
        release: Release,
        known_types: Container[int] | None = None,
        newer: RecordDecoder | None = None,
    ) -> None:
        self._decode: Callable[[bytes | None, bytes | None], KeyedRecord] = topic.decode
        self._definitions: Callable[[int], tuple[Definition, Definition] | None] = topic.definitions
        self._release = release
        self._known_types = known_types
        self._newer = newer

    def text(self, record: Record) -> str:
        """Return the text after the record's header keys."""
        offset, key, value = record.offset, record.key, record.value
        failed = f" key: Error at offset {offset}, skipping. "
        if key is None:
            return f"{failed}The key is missing."  # the real tool dies
        read = self._decode(key, value)
        if read.type is None:
            return f"{failed}Could not read version from key's buffer."
        is_unknown = self._is_unknown(read.type, read.key)
        if self._newer is not None and (is_unknown or _is_newer(read.value)):
            return self._newer.text(record)
        if is_unknown:
            return f" key: Unknown record type {read.type} at offset {offset}, skipping."
        if isinstance(read.key, Raw):
            return failed + _unread("key", read.type, read.key)
        if isinstance(read.value, Raw):
            return failed + self._unread_value(read.type, read.value)
        assert read.key is not None
        told = f' key: {{"type":"{read.type}","data":{jackson(read.key.stated(self._release))}}} payload: '
        if read.value is None:
            return f"{told}<DELETE>"
        data = jackson(_named(_stated(read.value, self._release)))
        return f'{told}{{"version":"{read.value.version}","data":{data}}}'

    def members(self, record: Record) -> str:
        """Return the key and the value as objects."""
        read = self._decode(record.key, record.value)
        return f'"key":{side(read.key)},"value":{side(read.value, _stated)}'

    def _unread_value(self, record_type: int, value: Raw) -> str:
        pair = self._definitions(record_type)
        if self._release == "4" and value.version is not None and pair is not None:
            _, definition = pair
            if not definition.knows(value.version):
                return f"Found an unknown record version {value.version} for {definition.api_key} type"
        return _unread("value", value.version, value)

    def _is_unknown(self, record_type: int, key: Outcome | None) -> bool:
        if self._known_types is not None:
            return record_type not in self._known_types
        if isinstance(key, Raw):
            return key.version is None
        return key is not None and not key.definition.versions


def offsets_decoder(release: Release, newer: RecordDecoder | None = None) -> CoordinatorDecoder:
    """Return the decoder of `__consumer_offsets`."""
    return CoordinatorDecoder(offsets, release, _TYPES_OF_39 if release == "3.9" else None, newer)


def transactions_decoder() -> CoordinatorDecoder:
    """Return the decoder of `__transaction_state` that the tool has since 4.0, with 4.4's names of states."""
    return CoordinatorDecoder(transactions, "4")


def shares_decoder() -> CoordinatorDecoder:
    """Return the decoder of `__share_group_state`, which the tool has since 4.0."""
    return CoordinatorDecoder(shares, "4")


def _is_newer(value: Outcome | None) -> bool:
    """Return True if a value was read whose version 3.9 does not know."""
    return isinstance(value, Message) and value.version not in value.definition.versions_39


def _unread(part: str, version: int | None, raw: Raw) -> str:
    if version is None:
        return f"Could not read version from {part}'s buffer."
    return f"Could not read record with version {version} from {part}'s buffer due to: {raw.reason}."


def _stated(message: Message, release: Release = "4") -> dict[str, Any]:
    fields = message.stated(release)
    if message.name == "GroupMetadataValue" and fields["protocolType"] == consumer_protocol.PROTOCOL_TYPE:
        fields["members"] = [_with_blobs(member) for member in fields["members"]]
    return fields


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a transaction's fields with the name of its state, as the tool has it since 4.4; others as they are."""
    status = fields.get(_STATUS)
    if status is None:
        return fields
    return fields | {_STATUS: TransactionState(status).text if status in _STATES else str(status)}


def _with_blobs(member: dict[str, Any]) -> dict[str, Any]:
    """Return the member with its readable blobs as objects."""
    read = {name: decode(member[name]) for name, decode in _BLOBS.items()}
    return member | {
        name: blob.stated()
        for name, blob in read.items()
        if isinstance(blob, Message) and is_readable_as(blob, blob.definition.versions)
    }


class TransactionDecoder:
    """The decoder of `__transaction_state` that the tool had up to 3.9, whose text is not JSON."""

    def text(self, record: Record) -> str:
        """Return the text after the record's header keys."""
        read = transactions.decode(record.key, record.value)
        failed = f" key: Error at offset {record.offset}, skipping. "  # the real tool dies
        if read.key is None:
            return f"{failed}The key is missing."
        if isinstance(read.key, Raw):
            is_unknown = read.type is not None and read.key.version is None
            return f" key: unknown::version={read.type}" if is_unknown else f"{failed}{_sentence(read.key.reason)}"
        told = f" key: transaction_metadata::transactionalId={read.key.fields['transactionalId']} payload: "
        if read.value is None:
            return f"{told}<DELETE>"
        if isinstance(read.value, Raw):
            return f"{failed}{_sentence(read.value.reason)}"
        fields = read.value.fields
        status = fields[_STATUS]
        if status not in _STATES:
            return f"{failed}{status} is no status of a transaction."
        partitions = fields["transactionPartitions"]
        if status == TransactionState.EMPTY:
            partitions = []
        elif partitions is None:
            return f"{failed}The transaction has no partitions, and is not empty."
        if sum(len(each["topic"]) * len(each["partitionIds"]) for each in partitions) > _NAMES_CHARACTERS_MAX:
            return f"{failed}The names of its partitions are too long together."
        return (
            f"{told}producerId:{fields['producerId']},producerEpoch:{fields['producerEpoch']},"
            f"state={TransactionState(status).text},partitions=[{','.join(_in_order_of_the_tool(partitions))}],"
            f"txnLastUpdateTimestamp={fields['transactionLastUpdateTimestampMs']},"
            f"txnTimeoutMs={fields['transactionTimeoutMs']}"
        )

    def members(self, record: Record) -> str:
        """Return the key and the value as objects."""
        read = transactions.decode(record.key, record.value)
        return f'"key":{side(read.key)},"value":{side(read.value)}'


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _in_order_of_the_tool(partitions: list[dict[str, Any]]) -> list[str]:
    """Return the partitions in the order of Scala's hash set, in which the real tool keeps them."""
    hashes: dict[str, int] = {}
    size = _TABLE_SIZE
    for each in partitions:
        topic_hash = _string_hash(each["topic"])
        numbers = dict.fromkeys(each["partitionIds"])
        size = max(size, _table_size(int((len(numbers) + 1) / 0.75)))  # it makes room for as many as are to be added
        grows = len(numbers) <= _SMALL_SET_MAX
        for number in numbers:
            plain = (31 * (31 + number) + topic_hash) & 0xFFFFFFFF
            if grows and len(hashes) + 1 >= size * 3 // 4:
                size *= 2
            hashes.setdefault(f"{each['topic']}-{number}", _signed(plain ^ (plain >> 16)))
    return sorted(hashes, key=lambda name: (hashes[name] & (size - 1), hashes[name]))


def _table_size(capacity: int) -> int:
    return 1 << max(capacity - 1, 4).bit_length() if capacity > 1 else 1


def _string_hash(text: str) -> int:
    """Java's hash of a string: of its 16-bit units."""
    units = jvm_encoded(text).decode().encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
