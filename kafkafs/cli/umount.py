"""`kafkafs umount`: unmounts a store and waits until it is closed; and the argument MOUNTPOINT."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import say
from kafkafs.mount.mountpoints.unmounting import unmount

if TYPE_CHECKING:
    import os


class _UnexaminedPath(click.Path):
    """A path that is not examined: a stopped mount there would never answer. Shells complete it as click's paths."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> Path:
        """Return the path without asking the file system."""
        return Path(value)


mount_point_argument = click.argument("mount_point", metavar="MOUNTPOINT", type=_UnexaminedPath())


@click.command(epilog="\b\nExample:\n  kafkafs umount /mnt/kafka")
@mount_point_argument
@click.option("--force", "is_forced", is_flag=True, help="Unmount even if it is in use; its users get ENOTCONN.")
def umount(mount_point: Path, *, is_forced: bool) -> None:
    """Unmount MOUNTPOINT and return once its store is closed.

    If files are open, the mount stays, and the processes that have them open are named. A mount whose process has died
    is removed at once. A mount whose process does not answer stays, unless --force ends it. If a bind mount or another
    mount name space has a copy, the mount is detached here, and the holders are named; --force ends it there too. The
    command also fails if the store was not closed properly.
    """
    unmount(mount_point, is_forced=is_forced, say=say)
