"""`kafkafs umount`: take a mount away and wait until its store is closed."""

from __future__ import annotations

from pathlib import Path

import click

from kafkafs.mount.unmounting import unmount


@click.command(epilog="\b\nExample:\n  kafkafs umount /mnt/kafka")
@click.argument("mount_point", metavar="MOUNTPOINT", type=click.Path(path_type=Path))
@click.option("--force", "is_forced", is_flag=True, help="Unmount it even if it is used; who uses it gets ENOTCONN.")
def umount(mount_point: Path, *, is_forced: bool) -> None:
    """Unmount MOUNTPOINT and return once its store is closed.

    Where files are open it is left as it is, and the processes that have them are named. A mount whose process has died
    is taken away at once.
    """
    unmount(mount_point, is_forced=is_forced)
