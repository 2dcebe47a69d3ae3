"""The options of the sink, and the columns that it takes: those of Spark's own Kafka sink, with its error texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkafs.spark.errors import OptionError
from kafkafs.spark.options import parse_paths
from storage.commit import Transaction
from storage.record import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType

_HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (_HEADERS,),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
}
_LOCK_TIMEOUT_MS: Final = 30_000
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write.

    `topic` replaces every row's own. `application` and `version` name the write that is to be in the store once. A
    commit waits so long for others who have the store open for writing.
    """

    paths: tuple[str, ...]
    topic: str | None
    makes_topics: bool
    codec: Codec
    application: str | None
    version: int | None
    checkpoint: str | None
    lock_timeout_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options; raises `OptionError`."""
        found = {name.lower(): value for name, value in options.items()}
        version = _number(found, "txnVersion")
        lock_timeout_ms = _number(found, "lockTimeoutMs")
        codec = found.get("kafka.compression.type", "none").strip().lower()
        if codec not in _CODECS:
            raise OptionError(f"the option kafka.compression.type is one of {', '.join(_CODECS)}, not '{codec}'")
        makes_topics = found.get("createtopics", "true").strip().lower()
        if makes_topics not in {"true", "false"}:
            raise OptionError(f"the option createTopics is true or false, not '{makes_topics}'")
        return cls(
            parse_paths(found),
            found.get("topic"),
            makes_topics == "true",
            _CODECS[codec],
            found.get("txnappid"),
            version,
            found.get("checkpointlocation"),
            _LOCK_TIMEOUT_MS if lock_timeout_ms is None else lock_timeout_ms,
        )

    def transaction(self) -> Transaction | None:
        """Return the transaction of a batch write; None if it may be repeated."""
        if (self.application is None) != (self.version is None):
            raise OptionError("the options txnAppId and txnVersion are given together, or neither of them")
        if self.application is None or self.version is None:
            return None
        return Transaction(self.application, self.version)


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text.strip(), re.ASCII):
        raise OptionError(f"the option {name} is a number from 0 on, not '{text}'")
    return int(text)


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise `OptionError` unless the rows can be records; columns that mean nothing to a record are passed over."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "topic" not in kinds and options.topic is None:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in kinds:
        raise OptionError("Required attribute 'value' not found")
    for name, allowed in _TYPES.items():
        kind = kinds[name].simpleString() if name in kinds else None
        texts = [each.simpleString() for each in allowed]
        if kind is not None and kind not in texts:
            raise OptionError(f"{name} attribute unsupported type {kind}. {name} must be a(n) {' or '.join(texts)}")
