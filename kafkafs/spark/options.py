"""The options of the source and the sink: those of Spark's own for Kafka, with their error texts, and a few of ours.

Names are not case-sensitive. Unknown ones are ignored, as Spark ignores them, and so are most settings of a Kafka
client (`kafka.…`), so that a query moves from a broker to its files by changing its format alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from kafkafs.damage import Damage
from kafkafs.spark.bounds import ENDING, STARTING, Edge, NoMatch, check_batch_bounds
from kafkafs.spark.checkpoints import local_path
from kafkafs.spark.errors import OptionError
from kafkafs.spark.selection import parse_selection
from storage.commit import Transaction
from storage.errors import NotAStoreError
from storage.files import absolute_path, store_path
from storage.log import Isolation
from storage.record import Codec
from storage.split import DEFAULT_SPLIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkafs.spark.bounds import Bound
    from kafkafs.spark.selection import Selection

Choice = TypeVar("Choice", bound=Enum)

_DELAY: Final = re.compile(r"([0-9]+)\s*(ms|s|m|min|h|d)?")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DEFAULT_DELAY: Final = "15m"
_LOCK_TIMEOUT_MS: Final = 30_000
_CODECS: Final = {codec.name.lower(): codec for codec in Codec}


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of every read: the least number of tasks, and the most records in each."""

    paths: tuple[str, ...]
    selection: Selection
    starting: Bound
    no_match: NoMatch
    isolation: Isolation
    fails_on_data_loss: bool
    skips_damage: bool
    damage_directory: str | None
    partitions_min: int | None
    records_max: int | None
    split_bytes: int

    @classmethod
    def parse(cls, options: Mapping[str, str], default_start: Edge) -> Self:
        """Parse the options; raises `OptionError`."""
        found = {name.lower(): value for name, value in options.items()}
        return cls(
            parse_paths(found),
            parse_selection(found),
            STARTING.parse(found, default_start),
            _choice(found, "startingOffsetsByTimestampStrategy", NoMatch.ERROR),
            _choice(found, "kafka.isolation.level", Isolation.UNCOMMITTED),
            _truth(found, "failOnDataLoss", default=True),
            _choice(found, "damage", Damage.STOP) is Damage.SKIP,
            _damage_directory(found),
            _positive(found, "minPartitions"),
            _positive(found, "maxRecordsPerPartition"),
            _positive(found, "splitBytes") or DEFAULT_SPLIT_BYTES,
        )


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options of a batch query."""

    store: StoreOptions
    ending: Bound

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options; raises `OptionError`."""
        store = StoreOptions.parse(options, Edge.EARLIEST)
        ending = ENDING.parse({name.lower(): value for name, value in options.items()}, Edge.LATEST)
        check_batch_bounds(store.starting, ending)
        return cls(store, ending)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a streaming query; a batch waits for `offsets_min` or until `delay_ms_max` have passed.

    `lag_file` gets how far the query is behind, at each batch.
    """

    store: StoreOptions
    offsets_max: int | None
    offsets_min: int | None
    delay_ms_max: int
    lag_file: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options; raises `OptionError`."""
        found = {name.lower(): value for name, value in options.items()}
        if ENDING.offsets.lower() in found:
            raise OptionError("ending offset not valid in streaming queries")
        if ENDING.by_timestamp.lower() in found or ENDING.timestamp.lower() in found:
            raise OptionError("ending timestamp not valid in streaming queries")
        offsets_max, offsets_min = _positive(found, "maxOffsetsPerTrigger"), _positive(found, "minOffsetsPerTrigger")
        if offsets_max is not None and offsets_min is not None and offsets_min > offsets_max:
            raise OptionError(
                f"The value of minOffsetPerTrigger({offsets_min}) is higher than the "
                f"maxOffsetsPerTrigger({offsets_max})."
            )
        lag_file = _local(found["lagfile"]) if "lagfile" in found else None
        return cls(StoreOptions.parse(found, Edge.LATEST), offsets_max, offsets_min, _delay_ms(found), lag_file)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write.

    `topic` replaces that of every row. `application` and `version` name a write that is appended only once. A commit
    waits up to `lock_timeout_ms` while another process has the store open for writing.
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
        return cls(
            parse_paths(found),
            found.get("topic"),
            _truth(found, "createTopics", default=True),
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


def check_options(options: Mapping[str, str]) -> None:
    """Raise `OptionError` for options that no query can have, be it a batch or a stream; stores are not looked at."""
    found = {name.lower(): value for name, value in options.items()}
    StoreOptions.parse(found, Edge.EARLIEST)
    ENDING.parse(found, Edge.LATEST)
    includes_headers(found)


def includes_headers(options: Mapping[str, str]) -> bool:
    """Return True if rows have headers when no schema is given."""
    return _truth({name.lower(): value for name, value in options.items()}, "includeHeaders", default=False)


def parse_paths(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return a store's log directories, absolute, so that they are the same in every process; raises `OptionError`."""
    if "path" in options:
        texts = options["path"].split(",")
    else:
        texts = [part for text in json.loads(options.get("paths", "[]")) for part in text.split(",")]
    paths = [text.strip() for text in texts if text.strip()]
    if not paths:
        raise OptionError(
            'the path of a store is missing: .load("/var/lib/kafka"), or several log directories with commas; in SQL, '
            "CREATE TEMPORARY VIEW … USING kafkafs OPTIONS (path '/var/lib/kafka'), as Spark gives a source no options "
            "of CREATE TABLE"
        )
    return tuple(map(_absolute, paths))


def _absolute(text: str) -> str:
    try:
        return absolute_path(store_path(text))
    except NotAStoreError as error:
        raise OptionError(str(error)) from None


def _damage_directory(options: Mapping[str, str]) -> str | None:
    text = options.get("damagedirectory")
    if text is None:
        return None
    if _choice(options, "damage", Damage.STOP) is not Damage.SKIP:
        raise OptionError("the option damageDirectory goes with the option damage, which is skip then")
    return _local(text)


def _local(text: str) -> str:
    return str(Path(local_path(text.strip())).absolute())


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\s*-?[0-9]+\s*", text, re.ASCII):
        raise OptionError(f"the option {name} is a number, not '{text}'")
    if int(text) <= 0:
        raise OptionError(f"{name} must be positive")
    return int(text)


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text.strip(), re.ASCII):
        raise OptionError(f"the option {name} is a number from 0 on, not '{text}'")
    return int(text)


def _truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise OptionError(f"the option {name} is true or false, not '{text}'")
    return text == "true"


def _choice(options: Mapping[str, str], name: str, default: Choice) -> Choice:
    text = options.get(name.lower(), default.value).strip().lower()
    known = {choice.value: choice for choice in type(default)}
    if text not in known:
        raise OptionError(f"the option {name} is one of {', '.join(known)}, not '{text}'")
    return known[text]


def _delay_ms(options: Mapping[str, str]) -> int:
    text = options.get("maxtriggerdelay", _DEFAULT_DELAY).strip().lower()
    match = _DELAY.fullmatch(text)
    if match is None:
        raise OptionError(f"the option maxTriggerDelay is a time such as 15m, not '{text}'")
    return int(match[1]) * _UNIT_MS[match[2] or "ms"]
