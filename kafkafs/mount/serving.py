"""A store and its mount together: opened, served, and closed once no request can come."""

from __future__ import annotations

import logging
import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from kafkafs.content import SizeCache, cache_directory
from kafkafs.mount.errors import MountError
from kafkafs.mount.handlers import TreeOperations
from kafkafs.mount.maintenance import is_maintained, maintained, recovered_beside
from kafkafs.mount.metrics import Metrics
from kafkafs.mount.mountpoints.mount_point import check_mount_point, mount_point
from kafkafs.mount.mountpoints.places import resolved
from kafkafs.mount.opened_store import names_of, opened_store
from kafkafs.mount.options import DurabilityOption
from kafkafs.mount.process import parting as awaited_parting
from kafkafs.mount.process import tell_ready, tell_status, tell_stopping
from kafkafs.mount.session import Session, kernel_options
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.tree import Tree
from storage.budget import MEMORY
from storage.clock import Clock
from storage.files import PrivateFiles
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kafkafs.mount.log import RecentLines
    from kafkafs.mount.options import MountOptions
    from storage.store import Store

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

    A store that is missing or empty is made. `doing` is told what takes time, and `ready` is called once the mount
    answers. Raises `MountError`, also if the store was not closed properly, and what opening a store raises.
    """
    # From here on no path leads through the mount point, nor does the current directory, which may be one.
    paths, mount_path = resolved(paths), mount_path.absolute()
    os.chdir("/")
    cache = cache_directory(os.environ)
    kept = {} if cache is None else {"what kafkafs keeps of sizes": cache}
    check_mount_point(mount_path, paths, kept)
    with awaited_parting() as parting:
        opening = f"opening {names_of(paths)}"
        doing(opening)
        tell_status(opening)
        metrics = Metrics()
        if options.memory_bytes is not None:
            MEMORY.limit_bytes = options.memory_bytes
        with (
            opened_store(paths, options, parting) as store,
            # Only the process that has the store makes it: another one would remove it again.
            mount_point(mount_path, paths, kept) as place,
            recovered_beside(store, Clock()) as recover,
            maintained(store, options, metrics, Clock()),
            _tree(store, options, metrics, recent) as tree,
        ):
            operations = TreeOperations(
                tree,
                place=paths[0],
                access=tree.context.rights.of_store,
                ownership=options.ownership,
                metrics=metrics,
                footing=tree.context.sources.footing,
                is_shared=options.allows_others,
                is_durable=options.durability is DurabilityOption.FSYNC,
            )
            metrics.gauge("kafkafs_known_inodes", "Files that the kernel knows.", lambda: len(operations.inodes))
            metrics.gauge("kafkafs_open_files", "Files that are open.", lambda: len(operations.open_files))

            def answering() -> None:
                log.info("%s is mounted at %s, %s", names_of(paths), place, store.mode.value)
                tell_ready(f"{names_of(paths)} at {place}, {store.mode.value}")
                ready()
                recover()

            kernel = kernel_options(options, names_of(paths), is_read_only=store.mode is Mode.READ_ONLY)
            session = Session(operations, place, kernel, beside_s=tree.context.sizes.busy_s)
            session.run(ready=answering, ending=tell_stopping)
    if parting.word:
        raise MountError(f"{mount_path} is unmounted, but {parting.word}")
    log.info("%s is closed", names_of(paths))


@contextmanager
def _tree(store: Store, options: MountOptions, metrics: Metrics, recent: RecentLines) -> Iterator[Tree]:
    """Provide the tree of a store, with the mount's options, metrics and log."""
    sizes = SizeCache(PrivateFiles(), cache_directory(os.environ))
    try:
        control = ControlNodes(
            options=options.effective(is_maintained=is_maintained(store, options)),
            metrics=metrics.text,
            log=recent.text,
        )
        with closing(Tree(store, options.tree, clock=Clock(), sizes=sizes, control=control)) as tree:
            yield tree
    finally:
        sizes.close()
