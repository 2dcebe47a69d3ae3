"""`mount.kafkafs`: what mount(8) runs for an entry of fstab, or for `mount -t kafkafs STORE MOUNTPOINT`.

Its exit codes are those of mount(8), not the ones that all commands of kafkafs share.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_DONE, EXIT_INTERRUPTED, EXIT_USAGE, run_program
from kafkafs.cli.mount import checked_options, mount_in_background
from kafkafs.cli.store import only_store_argument
from kafkafs.cli.umount import mount_point_argument

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MOUNT_FAILED: Final = 32
_CODES: Final[Mapping[object, int]] = MappingProxyType({EXIT_DONE: 0, EXIT_USAGE: 1, EXIT_INTERRUPTED: 8})


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@only_store_argument
@mount_point_argument
@click.option(
    "-o",
    "texts",
    multiple=True,
    metavar="OPTION[,OPTION]...",
    callback=checked_options,
    help="As `kafkafs mount` has them.",
)
@click.option("-f", "is_trial", is_flag=True, help="Look at the options, and mount nothing.")
@click.option("-s", "-n", "-v", is_flag=True, expose_value=False, help="As mount(8) gives them; they mean nothing.")
@click.option("-t", "-N", expose_value=False, help="As mount(8) gives them; they mean nothing.")
def mount_kafkafs(*, store: tuple[Path, ...], mount_point: Path, texts: tuple[str, ...], is_trial: bool) -> None:
    """Mount STORE at MOUNTPOINT, for mount(8)."""
    if not is_trial:
        mount_in_background(store, mount_point, texts)


def main() -> None:
    """Run it as a program, to an exit code as mount(8) has them."""
    try:
        run_program(lambda: mount_kafkafs.main(prog_name="mount.kafkafs", standalone_mode=False))
    except SystemExit as end:
        raise SystemExit(_CODES.get(end.code, _MOUNT_FAILED)) from None


if __name__ == "__main__":
    main()
