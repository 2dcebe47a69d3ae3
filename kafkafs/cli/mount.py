"""`kafkafs mount`: a store as files, until it is unmounted."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkafs.allocation import begin_again_with_malloc
from kafkafs.cli.failures import say, sentence
from kafkafs.cli.finishing import print_afterwards
from kafkafs.cli.output import print_line
from kafkafs.cli.standard_streams import abandon_output
from kafkafs.cli.store import store_argument
from kafkafs.cli.umount import mount_point_argument
from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.places import check_apart, resolved
from kafkafs.mount.options import described_options, parse_options
from kafkafs.mount.process import (
    LOG_VARIABLE,
    Report,
    log_file,
    log_path,
    python_command,
    start,
    taking_effect_afterwards,
)
from storage.files import Files
from storage.log_dir import are_vacant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkafs.mount.options import MountOptions

log: Final = logging.getLogger("kafkafs.mount")


def checked_options(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> Sequence[str]:
    """Return the texts of `-o`; raises `BadParameter` for an unknown option or a value that it does not take."""
    try:
        parse_options(texts)
    except MountError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None
    return texts


def _options_text() -> str:
    """Return the options of `-o` with their values, a line or two each."""
    lines = [f"  {written}\n      {about}" for written, about in described_options().items()]
    return "\n".join(["\b", "OPTION, its values, and what holds without it:", *lines])


@click.command(
    epilog=f"{_options_text()}\n\n\b\nExample:\n  kafkafs mount /var/lib/kafka /mnt/kafka -o ro,allow_other\n"
    "  kafkafs umount /mnt/kafka"
)
@store_argument
@mount_point_argument
@click.option(
    "-o",
    "texts",
    multiple=True,
    metavar="OPTION[,OPTION]...",
    callback=checked_options,
    help="An option, as mount(8) and fstab give it; those below. May be given several times.",
)
@click.option("--foreground", is_flag=True, help="Stay until it is unmounted, with the log on standard error.")
@click.option(
    "--log-dir",
    "log_dirs",
    multiple=True,
    hidden=True,
    type=click.Path(path_type=Path),
    help="A log directory of STORE, as it is, for the process that a mount in the background starts.",
)
def mount(
    *,
    store: tuple[Path, ...],
    mount_point: Path,
    texts: tuple[str, ...],
    foreground: bool,
    log_dirs: tuple[Path, ...],
) -> None:
    """Mount STORE at MOUNTPOINT and return once it answers.

    Both are made if they are missing. A store that kafkafs made is mounted for reading and writing, any other for
    reading, unless -o rw is given.
    """
    store = log_dirs or store  # one by one, as given to a mount in the background
    options = parse_options(texts)
    if foreground:
        begin_again_with_malloc()
        _serve(store, mount_point, options)
    else:
        mount_in_background(store, mount_point, texts)
        print_afterwards(f"{mount_point}\ntry: ls {mount_point}", f"{mount_point} is mounted")


def mount_in_background(store: Sequence[Path], mount_point: Path, texts: Sequence[str]) -> None:
    """Mount in a process of its own, and return once it answers; raises `MountError` with the reason if it does not.

    A message says if a store was made, because the path may be mistyped.
    """
    check_apart(mount_point, store, {"the log of the mount": log_path(mount_point)})
    paths = resolved(store)
    is_made = parse_options(texts).is_writable is not False and are_vacant([Files().directory(path) for path in paths])
    given = [part for text in texts for part in ("-o", text)]
    # STORE is only for process listings: a comma in a path, or a blank at its end, would be read differently.
    given += [f"--log-dir={path}" for path in paths]
    places = (",".join(map(str, paths)), str(mount_point.absolute()))
    start(python_command("mount", "--foreground", *given, "--", *places), log_file(mount_point), doing=_say_on_terminal)
    if is_made:
        say(f"made a store in {','.join(map(str, store))}")


def _say_on_terminal(doing: str) -> None:
    if sys.stderr.isatty():
        say(doing)


def _serve(store: Sequence[Path], mount_point: Path, options: MountOptions) -> None:
    from kafkafs.mount.log import start_logging

    report = Report()
    log_text = os.environ.pop(LOG_VARIABLE, None)
    recent = start_logging(None if log_text is None else Path(log_text))

    def ready() -> None:
        if not report.is_awaited:
            try:
                print_line(str(mount_point))
            except OSError:  # it is mounted all the same
                abandon_output()
        if not report.ready():
            log.warning("the command that was to mount %s has ended, so it is unmounted", mount_point)
            signal.raise_signal(signal.SIGTERM)  # which ends a mount that is served

    try:
        with taking_effect_afterwards((signal.SIGTERM, signal.SIGHUP)):
            serve = _server()
            serve(store, mount_point, options, recent=recent, doing=report.doing, ready=ready)
    except Exception as error:
        report.failed(sentence(error))
        raise


def _server() -> Callable[..., None]:
    """Import the mount's server; raises `MountError` if it is not installed."""
    try:
        from kafkafs.mount.serving import serve
    except ImportError as error:
        raise MountError(
            f"mounting needs pyfuse3 and libfuse3 ({error}): install the package fuse3 and run `pip install "
            "'kafkafs[fuse]'`; `kafkafs ls` and `kafkafs cat` work without them"
        ) from None
    return serve
