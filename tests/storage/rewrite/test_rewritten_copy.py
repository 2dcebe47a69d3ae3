"""What is rewritten into another store: the same to every consumer, in other batches."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest
from aiokafka.record.memory_records import MemoryRecords
from consuming import ConsumedRecord, consumed
from memory_logs import NOW_MS, StandingClock

from storage.errors import CorruptBatchError
from storage.files import Files
from storage.log.producers.state import AppendOrigin
from storage.log.view import Isolation
from storage.log_dir.removals import Doomed
from storage.record.batch import RecordBatch
from storage.record.compression import Codec
from storage.record.control import EndTransactionMarker
from storage.record.encoding import BatchForm, batches_of_rows, marker_batch
from storage.rewrite.log_pieces import pieces_of
from storage.rewrite.rewritten_copy import RewriteRules, copy_rewritten, rewrite_piece
from storage.rewrite.store_builder import StoreBuilder
from storage.rewrite.topics import built_topics
from storage.store.store import Mode, Store
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from storage.record.reading import Batch

FILES = Files()
SETTINGS = {"segment.bytes": "4000", "index.interval.bytes": "256"}
REDACTED = frozenset({b"key 3", b"key 5"})


def in_pieces(store: Store, build: StoreBuilder, partition: tuple[str, int], rules: RewriteRules) -> None:
    """Rewrite a partition as several tasks do: each of its segments first, then the log from them."""
    pieces = [rewrite_piece(store, build, each, rules) for each in pieces_of(partition, store.log(*partition).view, 1)]
    copy_rewritten(store, build, partition, rules, pieces)


def rewritten(
    paths: Sequence[Path],
    target: Path,
    rules: RewriteRules,
    settings: dict[str, str] | None = None,
    copy: Callable[[Store, StoreBuilder, tuple[str, int], RewriteRules], None] = copy_rewritten,
) -> dict[tuple[str, int], dict[str, Any]]:
    clock = StandingClock()
    with Store.open(paths, mode=Mode.READ_ONLY, files=FILES, clock=clock) as store:
        topics = built_topics(store, None, settings or {})
        build = StoreBuilder.begin(FILES, clock, target, {}, topics)
        for partition in build.missing():
            copy(store, StoreBuilder.opened(FILES, target, build.run), partition, rules)
        told = build.publish(clock, paths)
        build.close()
    assert list(Verification(FILES, [target]).run(lambda: None)) == []
    return told


def seen(paths: Sequence[Path], partitions: Sequence[tuple[str, int]]) -> Iterator[tuple[object, ...]]:
    """What consumers and brokers know of each partition, apart from its batches."""
    with Store.open(paths, mode=Mode.READ_ONLY, files=FILES, clock=StandingClock()) as store:
        for partition in partitions:
            log = store.log(*partition)
            view = log.view
            yield (
                (view.start_offset, view.end_offset, view.last_stable_offset),
                {isolation: list(consumed(log, isolation)) for isolation in Isolation},
                [batch.last_offset for batch in view.batches(view.start_offset) if batch.is_control],
                view.aborted(view.start_offset, view.end_offset),
                log.epochs.entries,
                sorted(log.producers.states(), key=lambda state: state.producer_id),
            )


@cache
def seen_in_data_set(paths: tuple[Path, ...], partitions: tuple[tuple[str, int], ...]) -> list[tuple[object, ...]]:
    """Return what is known of a data set, which no test changes."""
    return list(seen(paths, partitions))


def batches(paths: Sequence[Path], topic: str, partition: int = 0) -> list[Batch]:
    with Store.open(paths, mode=Mode.READ_ONLY, files=FILES, clock=StandingClock()) as store:
        view = store.log(topic, partition).view
        return list(view.batches(view.start_offset))


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
@pytest.mark.parametrize(
    "rules",
    [
        RewriteRules(),
        *(RewriteRules(codec=codec) for codec in Codec),
        RewriteRules(codec=Codec.ZSTD, level=9, batch_bytes=16384),
    ],
    ids=lambda rules: f"{rules.codec.label if rules.codec is not None else 'as it is'}-{rules.batch_bytes}",
)
def test_real_stores_stay_what_they_are_to_everybody(
    datasets: Callable[[str], Path], tmp_path: Path, name: str, rules: RewriteRules
) -> None:
    paths = [datasets(name) / name / each for each in ("d1", "d2")]
    told = rewritten(paths, tmp_path / "target", rules)
    assert len(told) == 45
    assert list(seen([tmp_path / "target"], list(told))) == seen_in_data_set(tuple(paths), tuple(told))
    found = Counter()
    for partition in told:
        for batch in batches([tmp_path / "target"], *partition):
            if isinstance(batch, RecordBatch) and batch.count and not batch.is_control:
                found[batch.codec] += 1
    if rules.codec is not None:
        assert set(found) == {rules.codec}
    if rules.batch_bytes:
        before, after = (sum(each[f"batches{when}"] for each in told.values()) for when in ("Before", "After"))
        assert after < before * 0.9


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
@pytest.mark.parametrize("batch_bytes", [0, 16384])
def test_stores_that_are_rewritten_in_pieces_are_the_same(
    datasets: Callable[[str], Path], tmp_path: Path, name: str, batch_bytes: int
) -> None:
    rules = RewriteRules(codec=Codec.LZ4, batch_bytes=batch_bytes)
    paths = [datasets(name) / name / each for each in ("d1", "d2")]
    told = rewritten(paths, tmp_path / "target", rules, copy=in_pieces)
    assert list(seen([tmp_path / "target"], list(told))) == seen_in_data_set(tuple(paths), tuple(told))
    whole = rewritten(paths, tmp_path / "whole", rules)
    counts = ("recordsBefore", "recordsAfter", "batchesBefore", "beforeBytes")
    assert [[each[name] for name in counts] for each in told.values()] == [
        [each[name] for name in counts] for each in whole.values()
    ]
    assert any(each["segments"] > whole[partition]["segments"] for partition, each in told.items())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a store with plain records, and those of two producers; one aborts every other transaction."""
    path, rng = tmp_path / "source", random.Random(4)
    sequences = {8: 0, 9: 0}
    with Store.create([path], files=FILES, clock=StandingClock()) as store:
        store.topics.create("t", 1, SETTINGS)
        log = store.log("t", 0)
        for number in range(200):
            producer_id = rng.choice([-1, -1, 8, 9])
            rows = [
                (
                    NOW_MS + 10 * number + at,
                    b"key %d" % rng.randrange(9),
                    rng.randbytes(40),
                    (("h", b"x"), ("n", None)),
                )
                for at in range(rng.randint(1, 4))
            ]
            form = BatchForm(codec=rng.choice(list(Codec)))
            if producer_id >= 0:
                form = BatchForm(
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequences[producer_id],
                    transactional=producer_id == 9,
                )
                sequences[producer_id] += len(rows)
            (batch,) = batches_of_rows(rows, base_offset=0, form=form)
            log.append_as_leader(batch, leader_epoch=number // 90)
            if producer_id == 9 and rng.random() < 0.5:
                marker = EndTransactionMarker(committed=number % 2 == 0, coordinator_epoch=0)
                data = marker_batch(marker, offset=0, timestamp_ms=NOW_MS, producer_id=9, producer_epoch=0)
                log.append_as_leader(data, leader_epoch=number // 90, origin=AppendOrigin.COORDINATOR)
    return path


def redact(records: Sequence[ConsumedRecord], *, drops: bool) -> list[ConsumedRecord]:
    return [
        record._replace(value=None, headers=()) if record.key in REDACTED else record
        for record in records
        if not (drops and record.key in REDACTED)
    ]


@pytest.mark.parametrize("batch_bytes", [0, 2000])
@pytest.mark.parametrize("drops", [False, True])
def test_redacted_keys_have_nothing_left_wherever_they_are(
    source: Path, tmp_path: Path, batch_bytes: int, *, drops: bool
) -> None:
    rules = RewriteRules(codec=Codec.ZSTD, redacted_keys=REDACTED, drops_redacted=drops, batch_bytes=batch_bytes)
    told = rewritten([source], tmp_path / "target", rules)["t", 0]
    (before,) = seen([source], [("t", 0)])
    (after,) = seen([tmp_path / "target"], [("t", 0)])
    for isolation in Isolation:
        assert after[1][isolation] == redact(before[1][isolation], drops=drops)
    assert after[0] == before[0]
    assert after[2:] == before[2:]
    # Aborted records are personal data too.
    records = [
        record for batch in batches([tmp_path / "target"], "t") for record in batch.records() if not batch.is_control
    ]
    hits = [record for record in records if record.key in REDACTED]
    assert all(record.value is None and not record.headers for record in hits)
    everything = [record for batch in batches([source], "t") for record in batch.records() if not batch.is_control]
    count = sum(record.key in REDACTED for record in everything)
    assert count > len([record for record in before[1][Isolation.COMMITTED] if record.key in REDACTED]) > 20
    assert (told["redacted"], told["dropped"]) == ((0, count) if drops else (count, 0))
    assert told["recordsBefore"] == len(everything)
    assert told["recordsAfter"] == len(records)


def test_segments_are_as_large_as_the_topic_says(source: Path, tmp_path: Path) -> None:
    told = rewritten([source], tmp_path / "target", RewriteRules(codec=Codec.NONE), {"segment.bytes": "9000"})["t", 0]
    sizes = [path.stat().st_size for path in sorted((tmp_path / "target" / "t-0").glob("*.log"))]
    assert all(7000 < size <= 9000 for size in sizes[:-1])
    assert (len(sizes), sum(sizes)) == (told["segments"], told["afterBytes"])
    assert told["beforeBytes"] == sum(path.stat().st_size for path in (source / "t-0").glob("*.log"))


def test_segments_cover_no_more_time_than_the_topic_says(source: Path, tmp_path: Path) -> None:
    rewritten(
        [source], tmp_path / "target", RewriteRules(codec=Codec.ZSTD), {"segment.bytes": "100000", "segment.ms": "500"}
    )
    times = [
        [batch.max_timestamp for batch in batches([tmp_path / "target"], "t") if base <= batch.last_offset < end]
        for base, end in _extents(tmp_path / "target" / "t-0")
    ]
    assert len(times) == 4
    assert all(max(each) - each[0] <= 500 for each in times)


def _extents(directory: Path) -> list[tuple[int, int]]:
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    return list(zip(bases, [*bases[1:], 2**63], strict=True))


def test_the_last_batch_of_a_producer_stays_what_a_broker_would_know_again(source: Path, tmp_path: Path) -> None:
    rewritten([source], tmp_path / "target", RewriteRules(batch_bytes=100_000, codec=Codec.LZ4))

    def last(path: Path, producer_id: int) -> tuple[int, int, int]:
        own = [each for each in batches([path], "t") if each.producer_id == producer_id and not each.is_control]
        return own[-1].base_offset, own[-1].last_offset, own[-1].base_sequence

    for producer_id in (8, 9):
        assert last(tmp_path / "target", producer_id) == last(source, producer_id)


@pytest.mark.parametrize("codec", list(Codec))
def test_another_client_decodes_what_it_has_decoded_before(source: Path, tmp_path: Path, codec: Codec) -> None:
    rewritten([source], tmp_path / "target", RewriteRules(codec=codec, batch_bytes=3000))

    def decoded(path: Path) -> list[tuple[object, ...]]:
        found = []
        for log in sorted((path / "t-0").glob("*.log")):
            records = MemoryRecords(log.read_bytes())
            while (batch := records.next_batch()) is not None:
                assert batch.validate_crc()
                found += [(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in batch]
        return found

    assert decoded(tmp_path / "target") == decoded(source)
    assert len(decoded(source)) > 400


def test_a_log_that_is_put_together_takes_no_piece_that_is_not_its_own(source: Path, tmp_path: Path) -> None:
    """Pieces that are gone, that another attempt took, or whose segments were replaced are rewritten."""
    rules = RewriteRules(codec=Codec.ZSTD, redacted_keys=REDACTED, drops_redacted=True)
    due = list(seen([source], [("t", 0)]))
    told = rewritten([source], tmp_path / "whole", rules)
    redacted = list(seen([tmp_path / "whole"], list(told)))
    taken: list[int] = []

    def copy(store: Store, build: StoreBuilder, partition: tuple[str, int], rules: RewriteRules) -> None:
        view = store.log(*partition).view
        pieces = [rewrite_piece(store, build, each, rules) for each in pieces_of(partition, view, 1)]
        assert len(pieces) == len(view.segments) > 5
        stale = pieces[1].copied[0]._replace(modified_ms=1)
        pieces[1] = pieces[1]._replace(copied=(stale,))
        assert build.claim(pieces[2].built.directory) is not None
        Doomed(build.directory, pieces[3].built.directory).remove()
        before = set(build.directory.names())
        copy_rewritten(store, build, partition, rules, pieces)
        gone = before - set(build.directory.names())
        taken.append(sum(each.built.directory in gone for each in pieces))
        copy_rewritten(store, build, partition, rules, pieces)  # a second attempt finds none of them
        taken.append(len(pieces))

    assert rewritten([source], tmp_path / "pieces", rules, copy=copy).keys() == told.keys()
    assert list(seen([tmp_path / "pieces"], list(told))) == redacted
    assert taken[0] == taken[1] - 3
    assert list(seen([source], [("t", 0)])) == due


def test_a_piece_that_fails_leaves_nothing(source: Path, tmp_path: Path) -> None:
    with Store.open([source], mode=Mode.READ_ONLY, files=FILES, clock=StandingClock()) as store:
        topics = built_topics(store, None, {})
        build = StoreBuilder.begin(FILES, StandingClock(), tmp_path / "target", {}, topics)
        (first, *_) = pieces_of(("t", 0), store.log("t", 0).view, 1)
        log = source / "t-0" / f"{0:020}.log"
        whole = log.read_bytes()
        log.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        before = set(build.directory.names())
        with pytest.raises(CorruptBatchError):
            rewrite_piece(store, build, first, RewriteRules())
        assert set(build.directory.names()) == before
        log.write_bytes(whole)
        piece = rewrite_piece(store, build, first, RewriteRules())
        assert piece.built.directory in build.directory.names()
        build.close()
        resumed = StoreBuilder.begin(FILES, StandingClock(), tmp_path / "target", {}, topics)
        assert set(resumed.directory.names()) == before, "a later process begins without pieces"
        resumed.close()
