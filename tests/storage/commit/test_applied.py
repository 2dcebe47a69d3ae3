"""Which writes of applications a store has: by topic, for as long as the topic is the same."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from staged_stores import PATHS, StagedStore

from storage.commit.applied import Transaction
from storage.commit.ledger import LEDGER_NAME
from storage.errors import StagingError
from storage.store.store import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def store() -> StagedStore:
    made = StagedStore()
    made.create({"orders": 1, "totals": 1})
    return made


def write(store: StagedStore, topics: str, value: bytes, transaction: Transaction, *, seed: int = 0) -> bool:
    rows = [(topic, 0, value) for topic in topics.split()]
    return store.commit([store.stage(rows, seed=seed, new_topics=True).name], transaction)


def values(store: StagedStore) -> dict[str, list[bytes | None]]:
    return {topic: found for (topic, _), found in store.values().items()}


def delete(store: StagedStore, topic: str) -> None:
    with store.open() as opened:
        for doomed in opened.topics.delete(topic):
            doomed.remove()


def ledger(store: StagedStore) -> dict[str, object]:
    (path,) = (path for path in PATHS if LEDGER_NAME in store.files.names(path))
    return json.loads(store.files.read(f"{path}/{LEDGER_NAME}"))


def leave_earlier_ledger(store: StagedStore, applied: dict[str, int]) -> None:
    """Leave the ledger that kafkafs 0.1 would have."""
    with store.files.open_writing(f"{PATHS[0]}/{LEDGER_NAME}", create=True) as file:
        file.write_at(0, [json.dumps({"version": 1, "sequence": 9, "applied": applied}).encode()])


def test_each_topic_has_its_own_versions(store: StagedStore) -> None:
    first = Transaction("app", 1)
    assert write(store, "orders", b"1", first)
    assert write(store, "totals", b"1", first, seed=1)
    assert not write(store, "orders", b"again", first, seed=2)
    assert values(store) == {"orders": [b"1"], "totals": [b"1"]}


def test_a_write_goes_to_those_of_its_topics_that_lack_it(store: StagedStore, caplog: pytest.LogCaptureFixture) -> None:
    write(store, "orders", b"1", Transaction("app", 1))
    write(store, "totals", b"2", Transaction("app", 3), seed=1)
    with caplog.at_level(logging.WARNING):
        assert write(store, "orders totals new", b"3", Transaction("app", 1), seed=2)
    assert values(store) == {"orders": [b"1"], "totals": [b"2"], "new": [b"3"]}
    (said,) = caplog.messages
    assert said == (
        "nothing is appended of version 1 of the application 'app': orders has it already, totals has version 3 already"
    )
    assert store.staged_names() == []


def test_a_topic_that_is_deleted_takes_its_writes_with_it(store: StagedStore) -> None:
    written = Transaction("app", 4)
    assert write(store, "orders totals", b"1", written)
    with store.open(Mode.READ_ONLY) as opened:
        assert opened.commits.has(written)
        assert opened.commits.has(written, "orders")
    delete(store, "orders")
    with store.open(Mode.READ_ONLY) as opened:
        assert not opened.commits.has(written)
        assert not opened.commits.has(written, "orders")
        assert opened.commits.has(written, "totals")
    assert write(store, "orders totals", b"2", written, seed=1)
    assert values(store) == {"orders": [b"2"], "totals": [b"1"]}


def test_what_an_earlier_kafkafs_kept_for_the_store_counts_for_the_topics_of_then(store: StagedStore) -> None:
    leave_earlier_ledger(store, {"app": 5})
    for topic in ("orders", "totals"):
        assert not write(store, topic, b"again", Transaction("app", 5))
    assert write(store, "new", b"1", Transaction("app", 5), seed=1)
    assert write(store, "orders", b"6", Transaction("app", 6), seed=2)
    assert not write(store, "totals", b"again", Transaction("app", 4), seed=3)
    assert write(store, "totals", b"6", Transaction("app", 6), seed=4)
    assert values(store) == {"orders": [b"6"], "totals": [b"6"], "new": [b"1"]}
    assert ledger(store)["version"] == 2
    delete(store, "totals")
    assert write(store, "totals", b"new", Transaction("app", 4), seed=5)


@pytest.mark.parametrize(
    ("before", "now", "is_told"),
    [
        (Transaction("app", 3, "one"), Transaction("app", 0, "other"), True),
        (Transaction("app", 3, "one"), Transaction("app", 7, "other"), True),
        (Transaction("app", 3, "one"), Transaction("app", 0, ""), True),
        (Transaction("app", 3, ""), Transaction("app", 0, "other"), True),
        (Transaction("app", 3), Transaction("app", 0, "other"), True),
        (Transaction("app", 3, "one"), Transaction("app", 2, "one"), False),
        (Transaction("app", 3, "one"), Transaction("app", 0, "one"), False),
        (Transaction("app", 3, ""), Transaction("app", 3, "one"), False),
        (Transaction("app", 0, ""), Transaction("app", 0, ""), False),
        (Transaction("app", 3), Transaction("app", 0), False),
        (Transaction("app", 3, "one"), Transaction("another", 0, "other"), False),
    ],
)
def test_batches_of_another_checkpoint_are_not_taken_for_known_ones(
    store: StagedStore, before: Transaction, now: Transaction, *, is_told: bool
) -> None:
    write(store, "orders", b"1", before)
    if not is_told:
        write(store, "orders", b"2", now, seed=1)
        return
    said = "orders has batches up to 3 of the application 'app', which a query with another checkpoint wrote; go on "
    with pytest.raises(StagingError, match=said):
        write(store, "orders", b"2", now, seed=1)
    assert values(store)["orders"] == [b"1"]


def test_a_query_goes_on_after_a_ledger_of_an_earlier_kafkafs(store: StagedStore) -> None:
    leave_earlier_ledger(store, {"app": 5})
    written: Sequence[bool] = [
        write(store, "orders", b"%d" % batch, Transaction("app", batch, "query"), seed=batch) for batch in (5, 6, 7)
    ]
    assert written == [False, True, True]
    with pytest.raises(StagingError, match="go on with that checkpoint"):
        write(store, "orders", b"0", Transaction("app", 0, "another"), seed=8)
