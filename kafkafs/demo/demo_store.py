"""The store of the demo: made whole or not at all, and recognized by its topics."""

from __future__ import annotations

import errno
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from kafkafs.demo.groups import write_groups
from kafkafs.demo.topics import (
    CLICKS,
    CUSTOMERS,
    ORDERS,
    PAYMENTS,
    RECENT_MS,
    has_orders_since,
    write_clicks,
    write_customers,
    write_orders,
    write_payments,
    write_recent_orders,
)
from storage.errors import NotAStoreError, StorageError
from storage.internal import offsets
from storage.store import Mode, Store

if TYPE_CHECKING:
    from storage.clock import Clock
    from storage.files import Files

TOPICS: Final = frozenset({ORDERS, CUSTOMERS, PAYMENTS, CLICKS, offsets.TOPIC})


def make_demo_store(path: Path, *, files: Files, clock: Clock) -> bool:
    """Make a demo at the path; return False if one is there already, and leave it as it is.

    The store gets its name only when it is complete. Raises `NotAStoreError` if something else is at the path.
    """
    if files.directory(path).own_status() is not None and not _is_empty(path):
        _check_is_demo(path, files, clock)
        return False
    parent = files.directory(path.parent)
    with TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as scratch:
        made = Path(scratch, path.name)
        with Store.create([made], files=files, clock=clock) as store:
            now_ms = clock.now_ms()
            for write in (write_orders, write_customers, write_payments, write_clicks, write_groups):
                write(store, now_ms)
        try:
            files.directory(scratch).rename(made.name, path.name, parent)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            reason = "another kafkafs demo has just made this store; run the command again to use it"
            raise StorageError(reason, path=path) from None
    parent.sync()
    return True


def add_recent_orders(path: Path, *, files: Files, clock: Clock) -> int:
    """Add the orders of the last half hour to a demo that has none, and return how many.

    So what looks at the last minutes of an old demo finds something. Raises `StorageError` if it cannot be written,
    `StoreLockedError` if it is mounted.
    """
    now_ms = clock.now_ms()
    with Store.open([path], mode=Mode.READ_ONLY, files=files, clock=clock) as store:
        if has_orders_since(store, now_ms - RECENT_MS // 3):
            return 0
    with Store.open([path], mode=Mode.READ_WRITE, files=files, clock=clock) as store:
        return write_recent_orders(store, now_ms)


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _check_is_demo(path: Path, files: Files, clock: Clock) -> None:
    try:
        with Store.open([path], mode=Mode.READ_ONLY, files=files, clock=clock) as store:
            is_demo = store.is_made_here and store.topics.inventory.topics.keys() >= TOPICS
    except (NotAStoreError, NotADirectoryError):
        is_demo = False
    if not is_demo:
        raise NotAStoreError("something other than a demo is here: name another directory, or move it away", path=path)
