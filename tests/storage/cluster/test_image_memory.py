"""Images of logs take their memory from the budget: they give it back, or are refused with one sentence."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory

from storage.budget import MEMORY, MustWaitError
from storage.cluster.followed_topics import OffsetsLog, OffsetsTopic, TransactionsLog
from storage.cluster.metadata_log import MetadataLog
from storage.errors import MemoryBudgetError
from storage.internal import metadata, offsets, transactions
from storage.log import AppendOrigin
from storage.record import BatchForm, Codec, batches_of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    Row: TypeAlias = tuple[bytes | None, bytes]

pytestmark = pytest.mark.usefixtures("settled_memory")

BUDGET_BYTES = 4 * 1024 * 1024
REFUSED = (
    r"^the records of \S+ take more memory than three quarters of the budget of 4194304 bytes: mount with a larger"
)
NO_ROOM = r"^the records of \S+ take more memory than is left of the budget of 4194304 bytes: close files"


@pytest.fixture(autouse=True)
def budget() -> Iterator[None]:
    before = MEMORY.limit_bytes
    MEMORY.limit_bytes = BUDGET_BYTES
    yield
    MEMORY.limit_bytes = before


@contextmanager
def nothing_left() -> Iterator[None]:
    """Have other work take nearly all of the budget."""
    taken = MEMORY.left_bytes - 300_000
    assert MEMORY.take_unused(taken)
    try:
        yield
    finally:
        MEMORY.give(taken)


def written(rows: Iterable[Row]) -> LogOnMemory:
    memory = LogOnMemory({})
    given = [(NOW_MS, key, value, ()) for key, value in rows]
    for batch in batches_of_rows(given, base_offset=None, max_bytes=10_000, form=BatchForm(codec=Codec.LZ4)):
        memory.log.append_as_leader(batch, leader_epoch=1, origin=AppendOrigin.COORDINATOR)
    return memory


def commits(groups: Iterable[str]) -> Iterator[Row]:
    value = offsets.encode_value(1, 3, {"offset": 5, "metadata": ""})
    return ((offsets.encode_key(1, {"group": group, "topic": "t", "partition": 0}), value) for group in groups)


def names(count: int) -> Iterator[str]:
    return (f"g{number}" for number in range(count))


def topics(count: int) -> Iterator[Row]:
    return ((None, metadata.encode(2, 0, {"name": f"t{each}", "topicId": UUID(int=each + 1)})) for each in range(count))


def transaction(name: str, *partitions: int) -> Row:
    fields = {"transactionStatus": 1, "transactionPartitions": [{"topic": "t", "partitionIds": list(partitions)}]}
    schema = transactions.definitions(0)
    assert schema is not None
    value = {**schema[1].schema(0).default(), **fields}
    return transactions.encode_key(0, {"transactionalId": name}), transactions.encode_value(0, 0, value)


def metadata_log(memory: LogOnMemory) -> MetadataLog:
    return MetadataLog(memory.files.directory(DIRECTORY), memory.log)


def test_an_image_has_about_what_it_takes_until_it_is_collected() -> None:
    before = MEMORY.left_bytes
    replay = OffsetsLog(written(commits(names(2000))).log)
    replay.advance()
    taken = before - MEMORY.left_bytes
    assert replay.image.size_bytes() - 20_000 <= taken <= replay.image.size_bytes() * 2
    del replay
    assert MEMORY.left_bytes == before


def test_groups_that_do_not_fit_are_refused_once_and_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = MEMORY.left_bytes
    memory = written(commits(names(8000)))
    replay = OffsetsLog(memory.log)
    with pytest.raises(MemoryBudgetError, match=REFUSED):
        replay.advance()
    assert (MEMORY.left_bytes, replay.image.groups) == (before, {})
    with monkeypatch.context() as patched:
        patched.setattr(OffsetsLog, "_take", None)
        for _ in range(2):
            with pytest.raises(MemoryBudgetError, match=REFUSED):
                replay.advance()
    MEMORY.limit_bytes *= 8
    replay.advance()
    assert len(replay.image.groups) == 8000


def test_a_log_that_has_lost_records_is_read_again() -> None:
    memory = written(commits(names(8000)))
    replay = OffsetsLog(memory.log)
    with pytest.raises(MemoryBudgetError):
        replay.advance()
    memory.log.truncate_to(memory.log.view.end_offset // 8)
    replay.advance()
    assert 0 < len(replay.image.groups) < 8000


def test_what_later_records_replaced_takes_nothing() -> None:
    replay = OffsetsLog(written(commits(f"g{number % 10}" for number in range(8000))).log)
    replay.advance()
    assert len(replay.image.groups) == 10
    assert replay.memory.is_large is False or MEMORY.limit_bytes - MEMORY.left_bytes < 200_000


def test_damage_is_not_what_a_lack_of_memory_is_taken_for() -> None:
    replay = OffsetsLog(written(commits(names(8000))).log)
    with pytest.raises(MemoryBudgetError):
        replay.advance()
    assert replay.damages == []


def test_a_followed_topic_says_which_log_does_not_fit_and_has_the_others() -> None:
    topic = OffsetsTopic()
    topic.look({0: written(commits(names(8000))).log, 1: written(commits(["other"])).log})
    assert isinstance(topic.too_large, MemoryBudgetError)
    assert topic.shortcomings == [str(topic.too_large)]
    assert [group.group_id for group in topic.groups()] == ["other"]


def test_one_partition_that_is_named_a_hundred_thousand_times_is_one() -> None:
    rows = [transaction(f"t{number}", *[0] * 100_000) for number in range(8)]
    replay = TransactionsLog(written(rows).log)
    MEMORY.limit_bytes *= 16
    replay.advance()
    assert {tuple(each.partitions) for each in replay.image.ids.values()} == {(("t", 0),)}
    assert replay.image.size_bytes() < 20_000


def test_a_metadata_log_that_does_not_fit_is_refused_until_there_is_room() -> None:
    before = MEMORY.left_bytes
    log = metadata_log(written(topics(8000)))
    for _ in range(2):
        with pytest.raises(MemoryBudgetError, match=REFUSED):
            log.ask(lambda image: len(image.topics))
        assert MEMORY.left_bytes == before
    MEMORY.limit_bytes *= 8
    assert log.ask(lambda image: len(image.topics)) == 8000


def test_what_others_have_is_not_taken() -> None:
    log = metadata_log(written(topics(2000)))
    with nothing_left(), pytest.raises(MemoryBudgetError, match=NO_ROOM):
        log.ask(lambda image: len(image.topics))
    assert log.ask(lambda image: len(image.topics)) == 2000


def test_a_metadata_log_that_was_only_read_is_forgotten_for_others() -> None:
    before = MEMORY.left_bytes
    log = metadata_log(written(topics(2000)))
    assert log.ask(lambda image: len(image.topics)) == 2000
    assert MEMORY.left_bytes < before
    assert log.ask(lambda _: MEMORY.take(before)) is False  # not while it is asked
    assert MEMORY.take(before)
    MEMORY.give(before)
    assert log.ask(lambda image: len(image.topics)) == 2000


def test_a_thread_that_others_need_does_not_read_a_metadata_log() -> None:
    log = metadata_log(written(topics(3)))
    raised: list[Exception] = []

    def ask() -> None:
        MEMORY.never_lease_here()
        try:
            log.ask(lambda image: len(image.topics))
        except MustWaitError as error:
            raised.append(error)

    def run() -> None:
        thread = Thread(target=ask)
        thread.start()
        thread.join()

    run()
    assert len(raised) == 1
    log.ask(lambda _: run())  # nor does it wait for a thread that does
    assert len(raised) == 2
    run()
    assert len(raised) == 2
