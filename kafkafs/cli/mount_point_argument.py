"""The argument MOUNTPOINT. The path is not examined: a stopped mount there would never answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import os


class _UnaskedPath(click.Path):
    """A path as click completes it in a shell; a path of click's own is looked up even if nothing is to be checked."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> Path:
        """Take the path as it is. The file system is not asked about it."""
        return Path(value)


mount_point_argument = click.argument("mount_point", metavar="MOUNTPOINT", type=_UnaskedPath())
