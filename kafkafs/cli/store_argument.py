"""STORE on the command line: one log directory, or several with commas between them, as in `log.dirs`."""

from __future__ import annotations

from pathlib import Path

import click


def _paths(ctx: click.Context, parameter: click.Parameter, text: str) -> tuple[Path, ...]:
    paths = tuple(Path(part.strip()) for part in text.split(",") if part.strip())
    if not paths:
        raise click.BadParameter(
            "a store is the path of a directory, or several with commas between them", ctx, parameter
        )
    return paths


store_argument = click.argument("store", metavar="STORE", callback=_paths)
"""The paths of a store's log directories, in their order."""

other_store_argument = click.argument("other", metavar="OTHER", callback=_paths)
"""The same of a second store."""
