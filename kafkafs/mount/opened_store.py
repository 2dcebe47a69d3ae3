"""The store of a mount: made or opened as the options say, and closed at the end with a word on what failed."""

from __future__ import annotations

import errno
import logging
import os
import resource
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.holds import elsewhere, holds, is_from_here, server_of, text_of
from storage.clock import Clock
from storage.errors import StorageError, StoreLockedError
from storage.files import Files, NamedFiles
from storage.log_dir import LOCK_NAME, are_vacant, read_server_properties
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkafs.mount.options import MountOptions
    from kafkafs.mount.process import Parting
    from storage.log_dir import Partition
    from storage.topics import PartitionLog

log: Final = logging.getLogger("kafkafs.mount")

_NO_RIGHT: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NAMED_MAX: Final = 10


@contextmanager
def opened_store(paths: Sequence[Path], options: MountOptions, parting: Parting) -> Iterator[Store]:
    """Open the store for the block, and make it if there is none: for writing if kafkafs made it or the options say so.

    Failures up to its closing are logged and left in `parting`.
    """
    store = _made_or_opened(paths, options)
    _say_what_is_recovered(store, paths)
    _read_checkpoints(store)
    logs: Mapping[Partition, PartitionLog] = {}
    try:
        yield store
    finally:
        logs = store.open_logs()
        failure = None
        try:
            store.close()
        except (StorageError, OSError) as error:
            failure = error
        parting.word = _word(logs, failure)
        if parting.word:
            log.error("%s: %s", names_of(paths), parting.word)


def names_of(paths: Sequence[Path]) -> str:
    """The store, as its log directories are called."""
    return ",".join(map(str, paths))


def _word(logs: Mapping[Partition, PartitionLog], failure: Exception | None) -> str:
    """Return what failed in a store that is closed; empty if it was closed properly."""
    failed = sorted(f"{topic}-{partition}" for (topic, partition), log in logs.items() if log.is_poisoned)
    if not failed:
        return "" if failure is None else f"its store was not closed properly: {failure}"
    more = f" and {len(failed) - _NAMED_MAX} more" if len(failed) > _NAMED_MAX else ""
    return (
        f"its store was not closed properly: writing to {', '.join(failed[:_NAMED_MAX])}{more} has failed, as the "
        "mount's log says; the next mount recovers what was stored"
    )


def _made_or_opened(paths: Sequence[Path], options: MountOptions) -> Store:
    files, clock = Files(follows_partitions=options.follows_links), Clock()
    raise_limit()
    given = options.server_properties
    settings = {} if given is None else read_server_properties(NamedFiles(), given)
    if are_vacant([files.directory(path) for path in paths]) and options.is_writable is not False:
        with _said_why_not(paths):
            store = Store.create(paths, files=files, clock=clock, broker_settings=settings)
        log.info("made a store in %s", names_of(paths))
        return store
    store = Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock, broker_settings=settings)
    is_run = any(log_dir.is_backup_run for log_dir in store.log_dirs)
    is_writable = store.is_made_here and not is_run if options.is_writable is None else options.is_writable
    if not is_writable:
        return store
    store.close()
    with _said_why_not(paths):
        return Store.open(paths, mode=Mode.READ_WRITE, files=files, clock=clock, broker_settings=settings)


@contextmanager
def _said_why_not(paths: Sequence[Path]) -> Iterator[None]:
    """Say what to do if a store cannot be locked, because of rights or of a mount out of sight."""
    try:
        yield
    except StoreLockedError as error:
        raise _held_elsewhere(paths) or error from None
    except OSError as error:
        if error.errno in _NO_RIGHT and error.filename is not None:
            file = os.fsdecode(error.filename)
            if os.path.basename(file) == LOCK_NAME:  # noqa: PTH119 -- a name may be bytes
                raise MountError(
                    f"{names_of(paths)} cannot be opened for writing ({file}: {error.strerror}): mount it with -o ro"
                ) from None
        raise


def _held_elsewhere(paths: Sequence[Path]) -> MountError | None:
    """Return the reason if the store is mounted only where this user does not see it."""
    # A path may have commas of its own.
    found = [hold for hold in holds() if any(f",{path}," in f",{hold.mount.source}," for path in paths)]
    if not found or any(hold.holder is None and str(hold.mount.root) == "/" for hold in found):
        return None
    server = server_of(found[0])
    if found[0].holder is not None and (server is None or not is_from_here(server)):
        place = f"{elsewhere(found[0], server)} at {found[0].mount.path}"
        return MountError(f"{names_of(paths)} is open for writing elsewhere: it is {place}, not here; unmount it there")
    return MountError(
        f"{names_of(paths)} is open for writing in a mount that was detached and is still held by {text_of(found)}: "
        f"unmount it there, or end it with `kafkafs umount --force {found[0].mount.path}`"
    )


def _read_checkpoints(store: Store) -> None:
    """Read the checkpoints, so that no reader waits for one of a million lines."""
    for log_dir in store.log_dirs:
        with suppress(StorageError, OSError):  # the reader who needs it is told
            log_dir.flaws()


def _say_what_is_recovered(store: Store, paths: Sequence[Path]) -> None:
    unclean = store.partitions_to_recover()
    if unclean:
        log.warning(
            "%s was not closed properly: %s recovered in the background, or before that when first used",
            names_of(paths),
            "a partition is" if len(unclean) == 1 else f"each of {len(unclean)} partitions is",
        )


def raise_limit() -> None:
    """Raise this process's limit of descriptors to its hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a hard limit above what the kernel allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
