"""Commits of staged files: all of each, once, in the order in which they were decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from staged_stores import PATHS, StagedStore, values_of

from storage.commit.applied import Transaction
from storage.commit.commits import STAGED_AGE_MS_MAX, give_up
from storage.commit.ledger import LEDGER_NAME, Ledger
from storage.errors import DiskFullError, StagingError, StoreLockedError
from storage.store.store import Mode
from storage.store.store_recovery import Recovered, recover_store

if TYPE_CHECKING:
    from storage.log.followed_log import UncommittedRange

ROWS = [("t", index % 2, b"%d" % index * 40) for index in range(12)]
COMMITTED = {
    ("t", 0): [b"%d" % index * 40 for index in range(0, 12, 2)],
    ("t", 1): [b"%d" % index * 40 for index in range(1, 12, 2)],
}
NOTHING = {("t", 0): [], ("t", 1): []}


@pytest.fixture
def store() -> StagedStore:
    made = StagedStore()
    made.create({"t": 2})
    return made


def doubled(values):
    return {partition: found * 2 for partition, found in values.items()}


def test_what_was_staged_is_nowhere_before_the_commit_and_everywhere_after_it(store: StagedStore) -> None:
    staged = store.stage(ROWS)
    assert staged.records == len(ROWS)
    assert store.values() == NOTHING
    assert store.commit([staged.name])
    assert store.values() == COMMITTED
    assert store.staged_names() == []


def test_staged_files_are_committed_in_the_order_in_which_they_are_given(store: StagedStore) -> None:
    first = store.stage([("t", 0, b"first"), ("t", 1, b"first")], seed=1)
    second = store.stage([("t", 1, b"second")], seed=2)
    store.commit([second.name, first.name])
    assert store.values() == {("t", 0): [b"first"], ("t", 1): [b"second", b"first"]}


def test_a_transaction_is_applied_once(store: StagedStore) -> None:
    for attempt in range(3):
        staged = store.stage(ROWS, seed=attempt)
        assert store.commit([staged.name], Transaction("app", 4)) is (attempt == 0)
    assert store.values() == COMMITTED
    assert store.staged_names() == []


def test_an_older_version_counts_as_applied_and_a_newer_one_and_another_application_do_not(store: StagedStore) -> None:
    expected = [("app", 4, True), ("app", 3, False), ("other", 3, True), ("app", 5, True)]
    for seed, (application, version, is_applied) in enumerate(expected):
        staged = store.stage([("t", 0, b"%d" % seed)], seed=seed)
        assert store.commit([staged.name], Transaction(application, version)) is is_applied
    assert store.values()["t", 0] == [b"0", b"2", b"3"]


def test_a_transaction_without_records_is_applied_too(store: StagedStore) -> None:
    assert store.commit([], Transaction("app", 0), ["t", "missing"])
    assert not store.commit([store.stage(ROWS).name], Transaction("app", 0))
    assert store.values() == NOTHING


def test_segments_are_as_large_as_the_topic_says_for_any_number_of_tasks(store: StagedStore) -> None:
    names = [store.stage([("t", 0, b"%d" % seed)], seed=seed).name for seed in range(30)]
    store.commit(names)
    with store.open(Mode.READ_ONLY) as opened:
        sizes = [segment.size_bytes for segment in opened.log("t", 0).view.segments]
    assert len(sizes) > 3
    assert all(700 - 80 <= size <= 700 for size in sizes[:-1])


def test_leader_epochs_go_on_from_the_latest(store: StagedStore) -> None:
    staged = store.stage([("t", 0, b"staged")])
    with store.open() as opened:
        opened.log("t", 0).epochs.assign(7, 0)
        opened.commits.commit([staged.name])
        (batch,) = opened.log("t", 0).view.batches(0)
        assert batch.leader_epoch == 7


# What comes in between


def is_half_written(store: StagedStore) -> bool:
    """Whether all of the commit that is the first partition's is there, and nothing of the other's."""
    return store.bytes_of("t", 0) == COMMITTED["t", 0] and store.bytes_of("t", 1) == []


def test_no_reader_sees_half_of_an_interrupted_commit(store: StagedStore) -> None:
    staged = store.stage(ROWS)
    store.interrupt([staged.name], is_seen=is_half_written)
    assert store.values(Mode.READ_ONLY) == NOTHING
    store.discard([staged.name])
    assert store.staged_names() == [staged.name], "the commit needs it"
    assert store.values(Mode.READ_WRITE) == COMMITTED
    assert store.values(Mode.READ_ONLY) == COMMITTED
    assert store.staged_names() == []


def test_what_was_there_before_the_commit_stays_to_be_seen(store: StagedStore) -> None:
    store.commit([store.stage(ROWS, seed=1).name])
    staged = store.stage(ROWS, seed=2)
    store.interrupt([staged.name], is_seen=lambda store: store.values(Mode.READ_WRITE) == doubled(COMMITTED))
    assert store.values() == doubled(COMMITTED)


def test_who_follows_a_log_sees_all_of_a_commit_as_soon_as_any(store: StagedStore) -> None:
    staged = store.stage(ROWS)
    reader = store.open(Mode.READ_ONLY)
    seen = []

    class Watching(type(store.files)):
        def step(self, path: str, partly=None) -> None:
            super().step(path, partly)
            if not seen or seen[-1] != (now := values_of(reader)):
                seen.append(now if seen else values_of(reader))

    store.files.__class__ = Watching
    store.commit([staged.name])
    seen.append(values_of(reader))
    assert [values for index, values in enumerate(seen) if values not in seen[:index]] == [NOTHING, COMMITTED]
    reader.close()


def test_a_commit_that_ends_while_a_follower_looks_is_seen_whole(store: StagedStore) -> None:
    """It was half there when the follower looked, and is not withheld any more when he asks."""
    staged = store.stage(ROWS)
    store.interrupt([staged.name], is_seen=is_half_written)
    asked = []

    def withheld() -> UncommittedRange:
        asked.append(ledger.withheld(("t", 1)))
        if len(asked) == 2:
            store.values(Mode.READ_WRITE)
            asked[-1] = ledger.withheld(("t", 1))
        return asked[-1]

    with store.open(Mode.READ_ONLY) as opened:
        ledger = Ledger([log_dir.directory for log_dir in opened.log_dirs])
        log = opened.follow_partition("t", 1, withheld=withheld)
        assert log.view.end_offset == len(COMMITTED["t", 1])
    assert [each.offset for each in asked] == [0, None, None]


def test_a_driver_that_repeats_its_transaction_after_its_death_finds_it_applied(store: StagedStore) -> None:
    staged = store.stage(ROWS)
    transaction = Transaction("app", 1)
    store.interrupt([staged.name], is_seen=is_half_written, transaction=transaction)
    again = store.stage(ROWS, seed=1)
    assert not store.commit([again.name], transaction)
    assert store.values() == COMMITTED
    assert store.staged_names() == []


def test_records_that_others_appended_in_between_are_kept(store: StagedStore) -> None:
    """A broker knows nothing of the commit, and appends after its written part."""
    staged = store.stage(ROWS)
    store.interrupt([staged.name], is_seen=is_half_written)
    ledgers = {
        path: store.files.read(f"{path}/{LEDGER_NAME}") for path in PATHS if LEDGER_NAME in store.files.names(path)
    }
    for path in ledgers:
        store.files.remove(f"{path}/{LEDGER_NAME}")
    foreign = store.stage([("t", 0, b"foreign"), ("t", 1, b"foreign")], seed=1)
    store.commit([foreign.name])
    for path, data in ledgers.items():
        with store.files.open_writing(f"{path}/{LEDGER_NAME}", create=True) as file:
            file.truncate(0)
            file.write_at(0, [data])
    found = store.values(Mode.READ_WRITE)
    assert found["t", 1] == [b"foreign", *COMMITTED["t", 1]]
    assert [value for value in found["t", 0] if value != b"foreign"] == COMMITTED["t", 0]
    assert found["t", 0].count(b"foreign") == 1


def test_a_topic_that_is_gone_takes_its_part_of_a_commit_with_it(store: StagedStore) -> None:
    with store.open() as opened:
        opened.topics.create("u", 1)
    staged = store.stage([*ROWS, ("u", 0, b"lost")])
    store.interrupt([staged.name], is_seen=is_half_written)
    for path in PATHS:
        if "u-0" in store.files.names(path):
            store.files.rename(f"{path}/u-0", f"{path}/u-0.0123-delete")
    assert store.values(Mode.READ_WRITE) == COMMITTED


def test_recovering_the_store_completes_the_commit(store: StagedStore) -> None:
    staged = store.stage(ROWS)
    store.interrupt([staged.name], is_seen=is_half_written)
    told: list[object] = []
    recover_store(PATHS, files=store.files, clock=store.clock, announce=lambda *_: None, tell=told.append)
    commit = told.pop()
    assert [each.error for each in told if isinstance(each, Recovered)] == [None, None]
    assert (commit.intent.staged, commit.withdrawn, commit.error) == ((staged.name,), None, None)
    assert store.values(Mode.READ_ONLY) == COMMITTED


# What is refused


def test_a_store_that_somebody_has_open_is_refused(store: StagedStore) -> None:
    staged = store.stage(ROWS)
    with store.open(), pytest.raises(StoreLockedError):
        store.commit([staged.name])
    with store.open():
        store.discard([staged.name])
    assert store.staged_names() == [staged.name], "a locked store is left alone"
    assert store.commit([staged.name])


def test_a_committer_that_gives_up_leaves_nothing_but_what_a_commit_needs(store: StagedStore) -> None:
    needed, other = store.stage(ROWS, seed=1), store.stage(ROWS, seed=2)
    store.interrupt([needed.name], is_seen=is_half_written)
    give_up([store.files.directory(path) for path in PATHS], [needed.name, other.name])
    assert store.staged_names() == [needed.name]


def test_a_staged_file_that_is_gone_or_torn_is_refused_with_nothing_done(store: StagedStore) -> None:
    first, second = store.stage(ROWS, seed=1), store.stage(ROWS, seed=2)
    path = next(f"{path}/{second.name}" for path in PATHS if second.name in store.files.names(path))
    data = store.files.read(path)
    for torn, reason in (
        (data[:-1], "not whole"),
        (data[:10] + b"?" + data[11:], "damaged"),
        (data[:50] + b"?" + data[51:], "damaged"),
    ):
        with store.files.open_writing(path) as file:
            file.truncate(0)
            file.write_at(0, [torn])
        with pytest.raises(StagingError, match=reason):
            store.commit([first.name, second.name])
        assert store.values() == NOTHING
    store.files.remove(path)
    with pytest.raises(StagingError, match="gone; repeat the job"):
        store.commit([first.name, second.name])
    assert store.values(Mode.READ_WRITE) == NOTHING
    assert store.commit([first.name])


def test_a_topic_that_was_recreated_since_is_refused(store: StagedStore) -> None:
    staged = store.stage(ROWS)
    with store.open() as opened:
        opened.topics.delete("t")
        opened.topics.create("t", 2)
    with pytest.raises(StagingError, match="was deleted"):
        store.commit([staged.name])
    assert store.values() == NOTHING


def test_a_disk_that_is_too_small_is_refused_before_anything_is_done(store: StagedStore) -> None:
    staged = store.stage([*ROWS, ("new", 0, b"value")], new_topics=True)
    opened = store.open()
    store.files.capacity_bytes = store.files._used_bytes(store.files._root) + 300
    with pytest.raises(DiskFullError, match=r"nothing was committed: \d+ bytes are needed, and 300 are free"):
        opened.commits.commit([staged.name])
    store.files.capacity_bytes = None
    opened.close()
    assert store.values(Mode.READ_WRITE) == NOTHING, "the new topic was not made either"
    assert store.commit([staged.name])


def test_a_commit_that_cannot_be_completed_keeps_its_logs_closed_and_others_open(store: StagedStore) -> None:
    with store.open() as opened:
        opened.topics.create("u", 1)
    other, staged = store.stage(ROWS[:1]), store.stage(ROWS[1:], seed=1)
    store.interrupt([other.name, staged.name], is_seen=is_half_written)
    store.clock.ms += STAGED_AGE_MS_MAX + 1
    path = next(f"{path}/{staged.name}" for path in PATHS if staged.name in store.files.names(path))
    data = store.files.read(path)
    store.files.remove(path)
    with store.open() as opened:
        for partition in (0, 1):
            with pytest.raises(StagingError, match="gone"):
                opened.log("t", partition)
        assert opened.log("u", 0).view.end_offset == 0
    assert store.values() == {**NOTHING, ("u", 0): []}
    assert store.staged_names() == [other.name], "however old it is"
    with store.files.open_writing(path, create=True) as file:
        file.write_at(0, [data])
    assert store.values(Mode.READ_WRITE) == {**COMMITTED, ("u", 0): []}


# What is left over


def test_old_uncommitted_files_are_removed(store: StagedStore) -> None:
    old = store.stage(ROWS, seed=1)
    store.clock.ms += STAGED_AGE_MS_MAX
    store.files.now_ms = store.clock.ms
    young = store.stage(ROWS, seed=2)
    assert store.staged_names() == sorted([old.name, young.name])
    store.clock.ms += 1
    store.open().close()
    assert store.staged_names() == [young.name]


def test_what_a_failed_job_staged_is_discarded(store: StagedStore) -> None:
    names = [store.stage(ROWS, seed=seed).name for seed in range(3)]
    store.discard(names[:2])
    store.discard(names[:2])
    assert store.staged_names() == names[2:]
    assert store.commit(names[2:])


def test_staged_files_are_named_within_the_log_directories_only(store: StagedStore) -> None:
    with store.files.open_writing("/x", create=True):
        pass
    store.discard(["../x"])
    assert store.files.status("/x") is not None
