"""`kafkafs mount`: a store as files, until it is unmounted."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import sentence
from kafkafs.cli.store_argument import store_argument
from kafkafs.mount.background import LOG_VARIABLE, Report, log_file, python_command, start
from kafkafs.mount.errors import MountError
from kafkafs.mount.options import parse_options
from storage.files import Files
from storage.store.creation import are_vacant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkafs.mount.options import MountOptions


@click.command(
    epilog="\b\nExample:\n  kafkafs mount /var/lib/kafka /mnt/kafka -o ro,allow_other\n  kafkafs umount /mnt/kafka"
)
@store_argument
@click.argument("mount_point", metavar="MOUNTPOINT", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "texts",
    multiple=True,
    metavar="OPTION[,OPTION]...",
    help="As of mount(8): ro, rw, allow_other, auto_unmount, uid=, gid=, umask=, list_limit=, isolation=, damage=, "
    "durability=, default_partitions=, allow_delete, kv_separator=, null_marker=, maintenance=, server_properties=.",
)
@click.option("--foreground", is_flag=True, help="Stay until it is unmounted, with the log on standard error.")
def mount(*, store: tuple[Path, ...], mount_point: Path, texts: tuple[str, ...], foreground: bool) -> None:
    """Mount STORE at MOUNTPOINT and return once it answers.

    Both are made if they are missing. A store that kafkafs made is mounted for reading and writing, another for reading
    unless -o rw is given.
    """
    options = parse_options(texts)
    if foreground:
        _serve(store, mount_point, options)
    else:
        mount_in_background(store, mount_point, texts)
        click.echo(f"{mount_point}\ntry: ls {mount_point}")


def mount_in_background(store: Sequence[Path], mount_point: Path, texts: Sequence[str]) -> None:
    """Mount in a process of its own, and return once it answers; raises `MountError` with its reason if it does not.

    That a store was made is said: its path may be another than was meant.
    """
    is_made = parse_options(texts).is_writable is not False and are_vacant(Files(), store)
    given = [part for text in texts for part in ("-o", text)]
    places = (",".join(str(path.absolute()) for path in store), str(mount_point.absolute()))
    start(python_command("mount", "--foreground", *given, "--", *places), log_file(mount_point), doing=_say)
    if is_made:
        click.echo(f"kafkafs: made a store in {','.join(map(str, store))}", err=True)


def _say(doing: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"kafkafs: {doing}", err=True)


def _serve(store: Sequence[Path], mount_point: Path, options: MountOptions) -> None:
    from kafkafs.mount.allocation import share_one_arena
    from kafkafs.mount.log import start_logging

    share_one_arena()
    report = Report()
    log = os.environ.pop(LOG_VARIABLE, None)
    recent = start_logging(None if log is None else Path(log))

    def ready() -> None:
        if not report.is_awaited:
            with suppress(OSError):
                click.echo(str(mount_point))
        report.ready()

    try:
        serve = _server()
        serve(store, mount_point, options, recent=recent, doing=report.doing, ready=ready)
    except Exception as error:
        report.failed(sentence(error))
        raise


def _server() -> Callable[..., None]:
    """What serves mounts; raises `MountError` where that is not installed."""
    try:
        from kafkafs.mount.serving import serve
    except ImportError as error:
        raise MountError(
            f"mounting needs pyfuse3 and libfuse3 ({error}): install the package fuse3 and run `pip install "
            "'kafkafs[fuse]'`; `kafkafs ls` and `kafkafs cat` work without them"
        ) from None
    return serve
