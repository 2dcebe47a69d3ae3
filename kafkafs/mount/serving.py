"""A store and its mount, put together: opened, served, and closed when nobody asks for anything any more."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkafs.locator.paths import PartitionPath
from kafkafs.mount.footing import Footing
from kafkafs.mount.maintaining import maintained
from kafkafs.mount.metrics import Metrics
from kafkafs.mount.mount_point import mount_point
from kafkafs.mount.operations import TreeOperations
from kafkafs.mount.options import Durability
from kafkafs.mount.service_manager import tell_ready, tell_status, tell_stopping
from kafkafs.mount.session import Session, kernel_options
from kafkafs.sizes import SizeCache, cache_directory
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.tree import Tree
from storage.clock import Clock
from storage.files import Files
from storage.store.creation import are_vacant
from storage.store.server_properties import read_server_properties
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kafkafs.locator.paths import LogPath
    from kafkafs.mount.log import RecentLines
    from kafkafs.mount.options import MountOptions

log: Final = logging.getLogger("kafkafs.mount")


def serve(
    paths: Sequence[Path],
    mount_path: Path,
    options: MountOptions,
    *,
    recent: RecentLines,
    doing: Callable[[str], None],
    ready: Callable[[], None],
) -> None:
    """Mount a store and return when it is unmounted and closed.

    A store that is missing or empty is made. `doing` is told what takes its time, and `ready` is called once the mount
    answers. Raises `MountError` and what opening a store raises.
    """
    with mount_point(mount_path, paths) as place:
        opening = f"opening {_names(paths)}"
        doing(opening)
        tell_status(opening)
        metrics = Metrics()
        with (
            _opened(paths, options) as store,
            maintained(store, options, metrics, Clock()),
            _tree(store, options, metrics, recent) as tree,
        ):
            operations = TreeOperations(
                tree,
                place=paths[0].resolve(),
                ownership=options.ownership,
                metrics=metrics,
                footing=lambda path: _footing(store, path),
                is_durable=options.durability is Durability.FSYNC,
            )
            metrics.gauge("kafkafs_known_inodes", "Files that the kernel knows.", lambda: len(operations.inodes))
            metrics.gauge("kafkafs_open_files", "Files that are open.", lambda: len(operations.open_files))

            def answering() -> None:
                log.info("%s is mounted at %s, %s", _names(paths), place, store.mode.value)
                tell_ready(f"{_names(paths)} at {place}, {store.mode.value}")
                ready()

            kernel = kernel_options(options, _names(paths), is_read_only=store.mode is Mode.READ_ONLY)
            Session(operations, place, kernel).run(ready=answering, ending=tell_stopping)
    log.info("%s is closed", _names(paths))


@contextmanager
def _tree(store: Store, options: MountOptions, metrics: Metrics, recent: RecentLines) -> Iterator[Tree]:
    """The tree of a store, of which the mount tells how it does."""
    given = {name: "true" if value is None else value for name, value in options.given.items()}
    sizes = SizeCache(Files(), cache_directory(os.environ))
    try:
        control = ControlNodes(options=given, metrics=metrics.text, log=recent.text)
        yield Tree(store, options.tree, clock=Clock(), sizes=sizes, control=control)
    finally:
        sizes.close()


@contextmanager
def _opened(paths: Sequence[Path], options: MountOptions) -> Iterator[Store]:
    """The store, made if there is none: open for writing if kafkafs made it or the options say so."""
    store = _made_or_opened(paths, options)
    try:
        yield store
    finally:
        store.close()


def _made_or_opened(paths: Sequence[Path], options: MountOptions) -> Store:
    files, clock = Files(), Clock()
    given = options.server_properties
    settings = {} if given is None else read_server_properties(files, given)
    if are_vacant(files, paths) and options.is_writable is not False:
        store = Store.create(paths, files=files, clock=clock, broker_settings=settings)
        log.info("made a store in %s", _names(paths))
        return store
    store = Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock, broker_settings=settings)
    is_writable = store.is_made_here if options.is_writable is None else options.is_writable
    if not is_writable:
        return store
    store.close()
    return Store.open(paths, mode=Mode.READ_WRITE, files=files, clock=clock, broker_settings=settings)


def _footing(store: Store, path: LogPath) -> Footing | None:
    """A log's footing, as long as it is open."""
    if not isinstance(path, PartitionPath):
        return None
    found = store.open_logs().get((path.topic.topic, path.partition))
    if found is None:
        return None
    view = found.view
    return Footing(id(found), view.start_offset, view.end_offset, frozenset(map(id, view.segments)))


def _names(paths: Sequence[Path]) -> str:
    return ",".join(str(path.absolute()) for path in paths)
