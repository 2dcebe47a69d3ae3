"""Drivers, attempts, zombies and deaths in any order, against a model that is a list."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from staged_stores import StagedStore

from storage.commit.applied import Transaction
from storage.errors import StagingError
from storage.store.store import Mode
from storage.testing.faults import Cut, CutError

pytestmark = pytest.mark.property

PARTITIONS = [("t", 0), ("t", 1), ("t", 2)]
Rows = list[tuple[str, int, bytes]]


class Drivers(RuleBasedStateMachine):
    """`staged` are attempts that were not removed, `applied` the rows that are in the store."""

    @initialize()
    def create(self) -> None:
        self.store = StagedStore()
        self.store.create({"t": 3})
        self.attempts: dict[str, Rows] = {}
        self.gone: set[str] = set()
        self.versions: dict[str, int] = {}
        self.applied: list[Rows] = []
        self.unsure: tuple[list[str], Transaction | None] | None = None
        self.seed = 0

    @rule(sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300)), min_size=1, max_size=8))
    def stage(self, sizes: list[tuple[int, int]]) -> None:
        self.seed += 1
        rows = [
            ("t", partition, b"%d %d " % (self.seed, index) + bytes(size))
            for index, (partition, size) in enumerate(sizes)
        ]
        self.attempts[self.store.stage(rows, seed=self.seed).name] = rows

    def chosen(self, data: st.DataObject) -> list[str]:
        return (
            data.draw(st.lists(st.sampled_from(sorted(self.attempts)), unique=True, max_size=4))
            if self.attempts
            else []
        )

    def transaction(self, data: st.DataObject) -> Transaction | None:
        application = data.draw(st.sampled_from([None, "a", "b"]))
        return None if application is None else Transaction(application, data.draw(st.integers(0, 5)))

    def settle(self, names: list[str], transaction: Transaction | None) -> None:
        """The commit is there."""
        self.applied.append([row for name in names for row in self.attempts[name]])
        self.gone.update(names)
        if transaction is not None:
            self.versions[transaction.application] = transaction.version

    def is_applied(self, transaction: Transaction | None) -> bool:
        return transaction is not None and transaction.version <= self.versions.get(transaction.application, -1)

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        names, transaction = self.chosen(data), self.transaction(data)
        self.look()
        if not self.gone.isdisjoint(names):
            with pytest.raises(StagingError):
                self.store.commit(names, transaction, ["t"])
        elif self.is_applied(transaction):
            assert not self.store.commit(names, transaction, ["t"])
            self.gone.update(names)
        else:
            assert self.store.commit(names, transaction, ["t"])
            self.settle(names, transaction)

    @rule(data=st.data(), step=st.integers(0, 400), seed=st.integers(0, 99), loses_power=st.booleans())
    def commit_and_die(self, data: st.DataObject, step: int, seed: int, loses_power: bool) -> None:
        names, transaction = self.chosen(data), self.transaction(data)
        self.look()
        if self.is_applied(transaction) or not self.gone.isdisjoint(names):
            return
        self.store.files.cut = Cut(self.store.files.steps + step, seed=seed)
        try:
            self.store.commit(names, transaction, ["t"])
        except CutError:
            self.unsure = names, transaction
        else:
            self.settle(names, transaction)
        files = self.store.files
        self.store.files = files.after_power_loss(seed) if loses_power else files.after_process_death()

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        """A driver gives up what it staged, except what an uncompleted commit needs."""
        names = self.chosen(data)
        self.store.discard(names)
        needed = set(self.unsure[0]) if self.unsure is not None else set()
        self.gone.update(set(names) - needed)
        if needed.intersection(names):
            self.look()
            self.gone.update(name for name in names if name not in self.store.staged_names())

    @rule()
    def look(self) -> None:
        """The next writer that opens the store completes what was decided."""
        found = self.store.values(Mode.READ_WRITE)
        if self.unsure is not None:
            (names, transaction), self.unsure = self.unsure, None
            if found != self.expected():
                self.settle(names, transaction)
        assert found == self.expected()

    @invariant()
    def readers_see_whole_commits(self) -> None:
        if self.unsure is None:
            assert self.store.values() == self.expected()

    def expected(self) -> dict[tuple[str, int], list[bytes]]:
        values: dict[tuple[str, int], list[bytes]] = {partition: [] for partition in PARTITIONS}
        for rows in self.applied:
            for topic, partition, value in rows:
                values[topic, partition].append(value)
        return values


Drivers.TestCase.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
TestDrivers = Drivers.TestCase
