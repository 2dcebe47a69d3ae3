"""Files that are not what their names say: links, FIFOs, devices, sockets, hard links, and files of a terabyte."""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING, Final

from hostile.store import TERABYTE, Case

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hostile.store import HostileStore, Scale

SEGMENT: Final = f"{0:020}"
LATER: Final = f"{1000:020}"
TOP_NAMES: Final = (
    "meta.properties",
    "kafkafs-topics.properties",
    "kafkafs-commits.json",
    f"kafkafs-staged-{0:032x}",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
    "bootstrap.checkpoint",
    ".lock",
)
PARTITION_NAMES: Final = (
    *(f"{SEGMENT}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")),
    *(f"{LATER}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")),
    f"{SEGMENT}.log.swap",
    f"{LATER}.log.cleaned",
    f"{LATER}.log.deleted",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "quorum-state",
)
TEMPORARY_NAMES: Final = tuple(f"{name}.tmp" for name in TOP_NAMES[:3] + TOP_NAMES[4:9])
TEMPORARY_PARTITION_NAMES: Final = tuple(f"{name}.tmp" for name in (*PARTITION_NAMES[4:5], *PARTITION_NAMES[13:15]))


def put_link(path: Path, store: HostileStore) -> None:
    """Put a link to a file outside."""
    path.symlink_to(store.secret)


def put_fifo(path: Path, _: HostileStore) -> None:
    """Put a FIFO whose other end no process opens."""
    os.mkfifo(path)


def put_device(path: Path, _: HostileStore) -> None:
    """Put the device that never ends, where this user may; otherwise a FIFO."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        os.mkfifo(path)


def put_socket(path: Path, store: HostileStore) -> None:
    """Put a socket; its path is longer than an address may be, so it is made elsewhere."""
    made = store.outside.parent / "s"
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(made.parent, os.O_PATH | os.O_DIRECTORY)
        bound.bind(f"/proc/self/fd/{here}/s")
        os.close(here)
    made.rename(path)


def put_directory(path: Path, _: HostileStore) -> None:
    """Put a directory with something in it."""
    path.mkdir()
    (path / "file").write_bytes(b"x")


def put_hard_link(path: Path, store: HostileStore) -> None:
    """Put another name of a file outside."""
    os.link(store.secret, path)


KINDS: Final[dict[str, Callable[[Path, HostileStore], None]]] = {
    "link": put_link,
    "FIFO": put_fifo,
    "device": put_device,
    "socket": put_socket,
    "directory": put_directory,
    "hard link": put_hard_link,
}


PLURALS: Final = {"directory": "directories"}


def replaced(name: str, put: Callable[[Path, HostileStore], None], *, at_top: bool) -> Callable[..., None]:
    """Return what puts something else in the place of one file."""

    def change(store: HostileStore, _: Scale) -> None:
        path = (store.path if at_top else store.victim) / name
        path.unlink(missing_ok=True)
        put(path, store)

    return change


def all_replaced(
    names: tuple[str, ...], put: Callable[[Path, HostileStore], None], *, at_top: bool
) -> Callable[..., None]:
    """Return what puts something else in the places of all these files."""

    def change(store: HostileStore, scale: Scale) -> None:
        for name in names:
            replaced(name, put, at_top=at_top)(store, scale)

    return change


def linked_partitions(store: HostileStore, _: Scale) -> None:
    """Make a partition's directory, a copy's and a stray's links to a directory outside."""
    store.victim.rename(store.outside / "victim-0")
    for name in ("victim-0", "linked-0", f"linked-1.{0:032x}-stray", f"linked-2.{1:032x}-future"):
        (store.path / name).symlink_to(store.outside / "victim-0")


def fifo_topics(store: HostileStore, scale: Scale) -> None:
    """Make 200 topics whose segment is a FIFO; a mount has fewer threads than that."""
    for number in range(max(scale.of(200), 50)):
        partition = store.path / f"fifo-{number}"
        partition.mkdir()
        os.mkfifo(partition / f"{SEGMENT}.log")


def looping_links(store: HostileStore, _: Scale) -> None:
    """Make links that lead to themselves and to the store."""
    (store.path / "loop-0").symlink_to("loop-0")
    (store.path / "up-0").symlink_to("..")
    (store.victim / "self").symlink_to(".")


def sparse(name: str, *, at_top: bool, keeps: bool = True) -> Callable[..., None]:
    """Return what makes a file a terabyte long, with a hole after what it held, or with nothing else."""

    def change(store: HostileStore, _: Scale) -> None:
        path = (store.path if at_top else store.victim) / name
        with path.open("ab") as file:
            if not keeps:
                file.truncate(0)
            file.truncate(TERABYTE)

    return change


def sparse_with_an_end(store: HostileStore, _: Scale) -> None:
    """Make the log a terabyte long, with a byte at its end."""
    sparse(f"{SEGMENT}.log", at_top=False)(store, _)
    with store.log.open("r+b") as file:
        file.seek(TERABYTE - 1)
        file.write(b"x")


def sparse_without_index(store: HostileStore, scale: Scale) -> None:
    """Make the log a terabyte long, and remove what leads into it."""
    for suffix in (".index", ".timeindex"):
        store.beside_log(suffix).unlink()
    sparse(f"{SEGMENT}.log", at_top=False)(store, scale)


FILE_CASES: Final = (
    *(
        Case(f"{kind} as {name}{'' if at_top else ' of a partition'}", "replaced", replaced(name, put, at_top=at_top))
        for kind, put in KINDS.items()
        for names, at_top in ((TOP_NAMES, True), (PARTITION_NAMES, False))
        for name in names
    ),
    *(
        Case(
            f"{PLURALS.get(kind, f'{kind}s')} as all files {where}",
            "all replaced",
            all_replaced(names, put, at_top=at_top),
        )
        for kind, put in KINDS.items()
        for where, names, at_top in (
            ("at the top", TOP_NAMES[2:], True),
            ("of a partition", PARTITION_NAMES, False),
            ("that are temporary", TEMPORARY_NAMES, True),
            ("of a partition that are temporary", TEMPORARY_PARTITION_NAMES, False),
        )
    ),
    Case("links as partitions", "links", linked_partitions),
    Case("links in circles", "links", looping_links),
    Case("FIFOs as segments of many topics", "all replaced", fifo_topics),
    *(
        Case(f"a terabyte as {name}{'' if at_top else ' of a partition'}", "sparse", sparse(name, at_top=at_top))
        for names, at_top in ((TOP_NAMES, True), (PARTITION_NAMES, False))
        for name in names
        if not name.endswith(".lock")
    ),
    Case("a terabyte of zeros before a byte", "sparse", sparse_with_an_end),
    Case("a terabyte of zeros without an index", "sparse", sparse_without_index),
    Case("a terabyte of zeros alone", "sparse", sparse(f"{SEGMENT}.log", at_top=False, keeps=False)),
)
