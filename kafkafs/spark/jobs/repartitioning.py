"""Sends the records of topics to another number of partitions, as Kafka's producers would.

Tasks read committed records and stage them in finished batches; other tasks write each new partition from the records
staged for it, in the order in which they were read. So records of a key keep their order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from kafkafs.spark.jobs.tasks import results_of
from kafkafs.spark.partitioner import Sticky, key_hashes
from kafkafs.spark.sight import Sighted, Sights
from storage.clock import Clock
from storage.commit import StagedFile
from storage.files import Files
from storage.log import Isolation, ReadableLog
from storage.record import MAGIC_AT, Codec, codec_of
from storage.rewrite import ATTEMPT_SUFFIX, copy_staged
from storage.split import PartitionPlace, SplitReader, packed, splits_of
from storage.store import Mode, Staging, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from kafkafs.spark.jobs.stores import BuiltPlace
    from storage.errors import RecordsGoneError
    from storage.log_dir import Partition
    from storage.record import Headers
    from storage.rewrite import RewriteRules, StoreBuilder
    from storage.split import Split

_COLUMNS: Final = ("timestamp", "key", "value", "headers")
_STAGING: Final = "staging"
_ANY_MS: Final = str(2**63 - 1)
_KEEPING_TIMES: Final = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY_MS,
    "message.timestamp.after.max.ms": _ANY_MS,
    "message.timestamp.difference.max.ms": _ANY_MS,
}
"""The settings of topics for staging: records keep their times, even if their topic stamps new ones."""
_ATTRIBUTES_AT: Final = {0: 17, 1: 17, 2: 22}  # the byte with the codec, by the version of a batch


class _StagedFile(NamedTuple):
    """A file of staged records, and the partitions that it has records of."""

    name: str
    partitions: frozenset[Partition]


@dataclass(slots=True)
class _Counts:
    """How many records of a split were read, redacted and dropped."""

    read: int = 0
    redacted: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _PackStaged:
    """The result of a task."""

    files: list[_StagedFile] = field(default_factory=list)
    counts: list[_Counts] = field(default_factory=list)


def build_repartitioned(
    spark: SparkSession, place: BuiltPlace, build: StoreBuilder, rules: RewriteRules
) -> dict[Partition, dict[str, Any]]:
    """Build every partition of the new store; return the counts of what was read of the old ones."""
    missing = build.missing()
    if not missing:
        return {}
    staging = Path(build.directory) / f"{_STAGING}.{build.run}{ATTEMPT_SUFFIX}"
    with Store.create([staging], files=Files(), clock=Clock()) as made:
        for topic, each in build.topics.items():
            made.topics.create(topic, len(each.partitions), {**each.known.settings, **_staged_settings(rules)})
    packs, counts = _planned(place, build)
    files: defaultdict[Partition, list[str]] = defaultdict(list)
    for pack, staged in zip(packs, results_of(spark, packs, partial(_stage, staging, rules)), strict=True):
        for split, found in zip(pack.piece, staged.counts, strict=True):
            told = counts[split.place.topic, split.place.partition]
            for name, number in (
                ("recordsBefore", found.read),
                ("redacted", found.redacted),
                ("dropped", found.dropped),
            ):
                told[name] += number
        for name, partitions in staged.files:
            for partition in partitions:
                files[partition].append(name)
    written = [Sighted((each, files[each])) for each in missing]
    results_of(spark, written, partial(_write, staging, place, build.run))
    return counts


def _staged_settings(rules: RewriteRules) -> dict[str, str]:
    settings = dict(_KEEPING_TIMES)
    if rules.codec is not None:
        settings["compression.type"] = "uncompressed" if rules.codec is Codec.NONE else rules.codec.label
        if rules.level is not None:
            settings[f"compression.{rules.codec.label}.level"] = str(rules.level)
    return settings


def _planned(
    place: BuiltPlace, build: StoreBuilder
) -> tuple[list[Sighted[tuple[Split, ...]]], dict[Partition, dict[str, Any]]]:
    """Return the splits to read in packs, in the order in which to write them, and the counts of each partition."""
    splits: list[Split] = []
    counts: dict[Partition, dict[str, Any]] = {}
    with place.opened() as store:
        for topic in build.topics:
            for number in store.topics.partitions(topic):
                log = store.log(topic, number)
                assert isinstance(log, ReadableLog)
                view = log.view
                directory = Path(store.topics.directory(topic, number))
                splits += splits_of(
                    log,
                    PartitionPlace(str(directory.parent), topic, number),
                    view.start_offset,
                    max(view.bound(Isolation.COMMITTED), view.start_offset),
                    isolation=Isolation.COMMITTED,
                    on_loss=_fail,
                )
                size_bytes = sum(segment.size_bytes for segment in view.segments)
                counts[topic, number] = {"recordsBefore": 0, "beforeBytes": size_bytes, "redacted": 0, "dropped": 0}
        sights = Sights(store)
        return [Sighted(pack, sights.of_splits(pack)) for pack in packed(splits)], counts


def _stage(staging: Path, rules: RewriteRules, pack: Sequence[Split]) -> _PackStaged:
    """Stage the records of splits in a worker; adjacent splits with the same codec share a file."""
    done = _PackStaged()
    sticky = Sticky()
    with Store.open([staging], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        for codec, splits in groupby(pack, _codec):
            with Staging(store, Clock(), codec=codec) as attempt:
                for split in splits:
                    counts = _Counts()
                    _stage_split(attempt, split, rules, sticky, counts)
                    done.counts.append(counts)
                staged = attempt.finish()
            if staged is not None:
                runs = StagedFile(store.log_dirs[0].directory, staged.name).runs
                done.files.append(_StagedFile(staged.name, frozenset(run.partition for run in runs)))
    return done


def _stage_split(staging: Staging, split: Split, rules: RewriteRules, sticky: Sticky, counts: _Counts) -> None:
    topic = split.place.topic
    partitions = staging.partitions(topic)
    reader = SplitReader(Files(), Clock(), columns=_COLUMNS, on_loss=_fail)
    for batch in reader.read(split):
        hashes = key_hashes(batch.column("key")).tolist()
        counts.read += batch.num_rows
        for (timestamp, key, value, headers), key_hash in zip(_rows(batch), hashes, strict=True):
            place = sticky.partition(topic, partitions, len(value or b"")) if key is None else key_hash % partitions
            if key not in rules.redacted_keys:
                staging.add(topic, place, (timestamp, key, value, headers))
            elif rules.drops_redacted:
                counts.dropped += 1
            else:
                counts.redacted += 1
                staging.add(topic, place, (timestamp, key, None, ()))


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes | None, bytes | None, Headers]]:
    times, *others = (batch.column(name) for name in _COLUMNS)
    columns: list[list[Any]] = [column.to_pylist() for column in (times.cast(pa.int64()), *others)]
    for timestamp, key, value, headers in zip(*columns, strict=True):
        yield timestamp, key, value, [(header["key"], header["value"]) for header in headers]


def _write(staging: Path, place: BuiltPlace, run: str, piece: tuple[Partition, list[str]]) -> None:
    """Write a new partition in a worker."""
    partition, names = piece
    files = Files()
    copy_staged(place.build(run), partition, files.directory(staging), names)


def _codec(split: Split) -> Codec:
    """Return the codec of a split's first batch, for records whose topic leaves it to producers."""
    return codec_of(split.header[_ATTRIBUTES_AT[split.header[MAGIC_AT]]])


def _fail(loss: RecordsGoneError) -> None:
    raise loss
