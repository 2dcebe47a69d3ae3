"""The rows of `skew` from counts: how evenly records lie in partitions, and which keys have most."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COLUMNS: Final = (
    "kind",
    "topic",
    "partition",
    "key",
    "key_base64",
    "records",
    "recordsOver",
    "bytes",
    "dataBytes",
    "share",
    "dataShare",
    "ratio",
    "bytesRatio",
)


class PartitionLoad(NamedTuple):
    """The load of a partition: `data_bytes` are those of keys and values, `log_bytes` those of batches on disk."""

    partition: int
    records: int
    data_bytes: int
    log_bytes: int


class KeyLoad(NamedTuple):
    """A key that occurs in `records` records, or in up to `over` less."""

    key: bytes | None
    records: int
    over: int
    data_bytes: int


def balance_rows(topic: str, partitions: Sequence[PartitionLoad], keys: Sequence[KeyLoad]) -> Iterator[dict[str, Any]]:
    """The row of a topic, those of its partitions and those of the keys, with every column."""
    records = sum(each.records for each in partitions)
    data_bytes = sum(each.data_bytes for each in partitions)
    log_bytes = sum(each.log_bytes for each in partitions)
    mean_records, mean_bytes = records / len(partitions), log_bytes / len(partitions)
    nothing: dict[str, Any] = dict.fromkeys(COLUMNS)
    yield nothing | {
        "kind": "topic",
        "topic": topic,
        "records": records,
        "bytes": log_bytes,
        "dataBytes": data_bytes,
        "ratio": _part(max(each.records for each in partitions), mean_records),
        "bytesRatio": _part(max(each.log_bytes for each in partitions), mean_bytes),
    }
    for each in partitions:
        yield nothing | {
            "kind": "partition",
            "topic": topic,
            "partition": each.partition,
            "records": each.records,
            "bytes": each.log_bytes,
            "dataBytes": each.data_bytes,
            "share": _part(each.records, records),
            "dataShare": _part(each.data_bytes, data_bytes),
            "ratio": _part(each.records, mean_records),
            "bytesRatio": _part(each.log_bytes, mean_bytes),
        }
    for key in keys:
        yield (
            nothing
            | _key_members(key.key)
            | {
                "kind": "key",
                "topic": topic,
                "records": key.records,
                "recordsOver": key.over,
                "dataBytes": key.data_bytes,
                "share": _part(key.records, records),
                "dataShare": _part(key.data_bytes, data_bytes),
            }
        )


def _key_members(key: bytes | None) -> dict[str, str | None]:
    """A key as the envelope has it: as text if it is any, else in base64."""
    if key is None:
        return {}
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key_base64": b64encode(key).decode()}


def _part(some: float, whole: float) -> float | None:
    return some / whole if whole else None
