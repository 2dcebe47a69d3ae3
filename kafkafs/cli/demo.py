"""`kafkafs demo`: makes a store to look around in, mounts it, and prints what to try."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_FAILED, say
from kafkafs.cli.mount import mount_in_background
from kafkafs.demo.demo_store import add_recent_orders, make_demo_store
from kafkafs.demo.tour import mount_tour, store_tour, tour_text
from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.answering import Answer, answer_of
from kafkafs.mount.mountpoints.mounts import FILE_SYSTEM_TYPE, mount_at, place_of
from kafkafs.mount.process import python_command
from storage.clock import Clock
from storage.errors import StorageError
from storage.files import Files
from storage.log_dir import make_directories

if TYPE_CHECKING:
    from kafkafs.demo.tour import Stop

LAUNCHER_VARIABLE: Final = "KAFKAFS_LAUNCHER"
"""Set by a checkout's launcher to how the user called it."""


@click.command(epilog="\b\nExample:\n  kafkafs demo /tmp/shop")
@click.argument("directory", metavar="[DIR]", type=click.Path(path_type=Path), default="kafkafs-demo")
def demo(directory: Path) -> None:
    """Make a store to look around in, mount it, and print what to try.

    The store is DIR/store, a day of a small shop: orders, customers, payments, clicks and consumer groups. It is
    mounted at DIR/mnt. DIR is kafkafs-demo in the current directory by default, and is made if it is missing.

    An existing demo is mounted with everything that was written to it; if its last orders are old, it gets those of the
    last half hour. If it cannot be mounted, the exit code
    is 3, and the tour shows the store without a mount.
    """
    files = Files()
    store, mount_point = directory / "store", directory / "mnt"
    place = files.directory(directory)
    if place.own_status() is None:
        make_directories(files, [place])
    if make_demo_store(store, files=files, clock=Clock()):
        say(f"made a store in {store}")
    else:
        _refresh(store, files)
    called = _called_as()
    try:
        _mount(store, mount_point)
    except MountError as error:
        say(str(error))
        _print(f"{store} is not mounted, but can be looked into all the same. Try:", store_tour(called, store))
        raise SystemExit(EXIT_FAILED) from None
    _print(
        f"{store} is mounted at {mount_point}, where .kafkafs/README explains the files. Try:",
        mount_tour(called, store, mount_point),
    )


def _refresh(store: Path, files: Files) -> None:
    """Add orders of the last half hour to a demo that is older and not mounted, and say what became of it."""
    try:
        added = add_recent_orders(store, files=files, clock=Clock())
    except (StorageError, OSError):  # it is mounted, or cannot be written; the tour says what can be done with it
        added = 0
    done = f"{added} orders of the last half hour were added" if added else "which is left as it is"
    say(f"there is a demo in {store} already, {'to which ' if added else ''}{done}")


def _mount(store: Path, mount_point: Path) -> None:
    """Mount it; raises `MountError` with the reason if that fails."""
    there = mount_at(mount_point)
    is_ours = there is not None and there.file_system_type == FILE_SYSTEM_TYPE and _is_same(there.source, store)
    if there is not None and is_ours and answer_of(there) is Answer.ANSWERS:
        say(f"it is mounted at {mount_point} already")
    else:
        mount_in_background((store,), mount_point, ())


def _is_same(source: str, store: Path) -> bool:
    return Path(source) == place_of(store)


def _called_as() -> str:
    """Return how the user called kafkafs, as a command for the current directory."""
    launcher = os.environ.get(LAUNCHER_VARIABLE)
    if launcher is not None:
        return shlex.quote(launcher)
    program = sys.argv[0]
    if Path(program).name != "kafkafs":
        return shlex.join(python_command())
    return "kafkafs" if shutil.which("kafkafs") == program else shlex.quote(program)


def _print(title: str, tour: list[Stop]) -> None:
    click.echo(f"{title}\n\n{tour_text(tour)}", nl=False)
