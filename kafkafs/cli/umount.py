"""`kafkafs umount`: take a mount away and wait until its store is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.mount_point_argument import mount_point_argument
from kafkafs.mount.unmounting import unmount

if TYPE_CHECKING:
    from pathlib import Path


@click.command(epilog="\b\nExample:\n  kafkafs umount /mnt/kafka")
@mount_point_argument
@click.option("--force", "is_forced", is_flag=True, help="Unmount it even if it is in use; its users get ENOTCONN.")
def umount(mount_point: Path, *, is_forced: bool) -> None:
    """Unmount MOUNTPOINT and return once its store is closed.

    If files are open it is left as it is, and the processes that have them are named. A mount whose process has died is
    removed at once. One whose process does not answer is left, and --force ends it. If a bind mount or another mount
    name space has a copy, it is detached here, and the holders are named; --force ends it there too. The command also
    fails if the store was not closed properly.
    """
    unmount(mount_point, is_forced=is_forced, say=_say)


def _say(sentence: str) -> None:
    click.echo(f"kafkafs: {sentence}", err=True)
