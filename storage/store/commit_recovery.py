"""Recovering a commit that was interrupted: it is completed, withdrawn, or neither because of an error."""

from __future__ import annotations

from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from storage.commit.ledger import Intent, Ledger
from storage.commit.withdrawal import StagedBatches, withdrawal_of
from storage.errors import StorageError
from storage.log.followed_log import UncommittedRange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from storage.commit.withdrawal import Withdrawal
    from storage.files import Directory
    from storage.store.store import Store


class RecoveredCommit(NamedTuple):
    """The outcome for a commit that was interrupted: completed, unless it was withdrawn or there is an error."""

    intent: Intent
    withdrawn: list[Withdrawal] | None
    error: StorageError | OSError | None


def pending_commit(directories: Sequence[Directory]) -> Intent | RecoveredCommit | None:
    """The commit that was interrupted, if there is one; an outcome already if nothing can be known of it."""
    try:
        return Ledger(directories).current.pending
    except (StorageError, OSError) as error:
        return RecoveredCommit(Intent(None, (), MappingProxyType({})), None, error)


def recovered_commit(store: Store, pending: Intent, *, withdraws: bool) -> RecoveredCommit:
    """Complete the commit in an open store, or say what is in the way."""
    return _settled(pending, store.commits.finish, store.commits.withdraw if withdraws else None)


def planned_commit(store: Store, pending: Intent, *, withdraws: bool) -> RecoveredCommit:
    """Plan the same in a store that is open for reading."""
    return _settled(pending, store.commits.check_pending, (lambda: _withdrawals(store, pending)) if withdraws else None)


def _settled(
    pending: Intent, complete: Callable[[], None], withdraw: Callable[[], list[Withdrawal]] | None
) -> RecoveredCommit:
    try:
        complete()
    except (StorageError, OSError) as error:
        if withdraw is None:
            return RecoveredCommit(pending, None, error)
    else:
        return RecoveredCommit(pending, None, None)
    try:
        return RecoveredCommit(pending, withdraw(), None)
    except (StorageError, OSError) as error:
        return RecoveredCommit(pending, None, error)


def _withdrawals(store: Store, pending: Intent) -> list[Withdrawal]:
    """Return what withdrawing the commit would take back, and what it would leave."""
    directories = [log_dir.directory for log_dir in store.log_dirs]
    found = []
    for (topic, partition), offset_range in pending.ranges.items():
        if partition not in store.topics.inventory.topics.get(topic, {}):
            continue
        staged = StagedBatches.read(directories, pending.staged, (topic, partition), offset_range)
        with closing(store.follow_partition(topic, partition, withheld=UncommittedRange)) as log:
            there = withdrawal_of((topic, partition), offset_range, log.view, staged)
        found += [] if there is None else [there]
    return found
