"""The decoder of `__transaction_state` that the real tool had up to 3.9, whose text is not JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkafs.dump.decoded import side
from kafkafs.dump.jackson import jvm_encoded
from storage.internal import Raw, TransactionState, transactions

if TYPE_CHECKING:
    from storage.record import Record

_STATES: Final = frozenset(TransactionState)
_TABLE_SIZE: Final = 16  # that Scala's hash sets begin with; at three quarters they grow to twice their size

_NAMES_CHARACTERS_MAX: Final = 32 * 1024 * 1024
"""Beyond any transaction of a broker, whose topics have short names: a record can name a long one again and again."""
_SMALL_SET_MAX: Final = 4  # more are a hash set themselves, and are added to one without a look at its load


class TransactionDecoder:
    """The decoder."""

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
        status = fields["transactionStatus"]
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
        """The key and the value as objects."""
        read = transactions.decode(record.key, record.value)
        return f'"key":{side(read.key)},"value":{side(read.value)}'


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _in_order_of_the_tool(partitions: list[dict[str, Any]]) -> list[str]:
    """The partitions in the order of the hash set of Scala's in which the real tool keeps them."""
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
