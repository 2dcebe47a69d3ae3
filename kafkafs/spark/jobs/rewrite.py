"""`rewrite`: writes a new store with recompressed or merged batches, redacted keys, or other partitions."""

from __future__ import annotations

from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkafs.spark.errors import JobError
from kafkafs.spark.jobs.repartitioning import build_repartitioned
from kafkafs.spark.jobs.stores import BuiltPlace, build_from_pieces, build_in_tasks, frame_of_reports
from storage.config import check_topic_setting
from storage.record import Codec
from storage.rewrite import RewriteRules, copy_rewritten, rewrite_piece

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from storage.log_dir import Partition
    from storage.rewrite import LogPiece, RewrittenPiece, StoreBuilder
    from storage.store import Store

SCHEMA: Final = (
    "topic string, partition int, recordsBefore long, recordsAfter long, batchesBefore long, batchesAfter long, "
    "beforeBytes long, afterBytes long, redacted long, dropped long, segments int"
)
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_CODECS: Final = {codec.label: codec for codec in Codec}


def rewrite(
    spark: SparkSession,
    store: StorePath,
    target: str | PathLike[str],
    topics: Collection[str] | None = None,
    *,
    settings: Mapping[str, str] = _NONE,
    codec: str | None = None,
    level: int | None = None,
    batch_bytes: int | None = None,
    redact_keys: Collection[bytes] = (),
    drop_redacted: bool = False,
    partitions: int | None = None,
) -> DataFrame:
    """Make a store at `target` with the records of another one, or of some of its topics, in other batches.

    Batches are compressed with `codec`, at `level`, and adjacent ones merged up to `batch_bytes`. A record whose key is
    one of `redact_keys` keeps only its key, or is removed with `drop_redacted`. Otherwise records keep their offsets,
    times, headers, producers and transactions, also aborted ones.

    With `partitions` each topic gets this many, and the records that a consumer with read_committed sees go to the
    partitions that Kafka's producers would choose: as new records, outside of transactions, those of a key in their
    order.

    The `settings` apply to each topic in addition to its own. The store that is read does not change, and the new one
    is complete when this returns: a row for each partition of either store.

    Raises `NotAStoreError` unless `target` does not exist or is an empty directory. The same call continues an
    interrupted job.
    """
    rules = _rules(codec, level, batch_bytes, redact_keys, drops_redacted=drop_redacted)
    place = BuiltPlace.of(store, target)
    purpose = {
        "job": "rewrite",
        "codec": codec,
        "level": level,
        "batchBytes": batch_bytes,
        "redactKeys": _fingerprint(rules.redacted_keys),
        "dropRedacted": drop_redacted,
        "partitions": partitions,
    }
    if partitions is not None:
        if batch_bytes is not None:
            raise JobError(
                "with other partitions all batches are rebuilt, as large as max.message.bytes of the topic allows; "
                "leave the size of batches out"
            )
        with place.begun(purpose, topics, settings, partitions=partitions) as build:
            counts = build_repartitioned(spark, place, build, rules)
            reports = place.publish(build)
        whole = {each: {**counts.get(each, {}), **reports.get(each, {})} for each in {*counts, *reports}}
        return frame_of_reports(spark, whole, SCHEMA)

    def work_on_piece(opened: Store, build: StoreBuilder, piece: LogPiece) -> RewrittenPiece:
        return rewrite_piece(opened, build, piece, rules)

    with place.begun(purpose, topics, settings) as build:
        pieces = build_from_pieces(spark, place, build, work_on_piece)

        def work(opened: Store, build: StoreBuilder, partition: Partition) -> None:
            copy_rewritten(opened, build, partition, rules, pieces.get(partition, ()))

        build_in_tasks(spark, place, build, work)
        return frame_of_reports(spark, place.publish(build), SCHEMA)


def _fingerprint(keys: Collection[bytes]) -> str:
    """Return a fingerprint of a set of keys that names none."""
    return sha256(b"".join(len(key).to_bytes(8, "big") + key for key in sorted(keys))).hexdigest()


def _rules(
    codec: str | None,
    level: int | None,
    batch_bytes: int | None,
    redact_keys: Collection[bytes],
    *,
    drops_redacted: bool,
) -> RewriteRules:
    """Return the rules of the options; raises `JobError` or `ConfigError` for impossible ones."""
    if codec is not None and codec not in _CODECS:
        raise JobError(f"a codec is one of {', '.join(_CODECS)}, not '{codec}'")
    if level is not None:
        if codec not in {"gzip", "lz4", "zstd"}:
            raise JobError("a level is one of gzip, lz4 or zstd: give one of these codecs with it")
        check_topic_setting(f"compression.{codec}.level", str(level))
    if batch_bytes is not None and batch_bytes < 1:
        raise JobError(f"batches are put together up to a number of bytes from 1 on, not {batch_bytes}")
    if drops_redacted and not redact_keys:
        raise JobError("there is nothing to drop: say which keys are to be redacted")
    return RewriteRules(
        codec=None if codec is None else _CODECS[codec],
        level=level,
        redacted_keys=frozenset(redact_keys),
        drops_redacted=drops_redacted,
        batch_bytes=batch_bytes or 0,
    )
