"""STORE on the command line: one log directory, or several with commas between them, as in `log.dirs`.

A name is taken as it is given: blanks are part of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from storage.errors import NotAStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")


def _paths(ctx: click.Context, parameter: click.Parameter, text: str) -> tuple[Path, ...]:
    parts = [part for part in text.split(",") if part]
    paths = tuple(map(Path, parts))
    if not paths:
        raise click.BadParameter(
            "a store is the path of a directory, or several with commas between them", ctx, parameter
        )
    for part in parts:
        if part != part.strip() and not os.path.lexists(part):
            end = "begins" if part != part.lstrip() else "ends"
            raise NotAStoreError(f"there is no such directory; its name {end} with a blank, as it was given", path=part)
    return paths


store_argument = click.argument("store", metavar="STORE", callback=_paths)
"""The paths of a store's log directories, in their order."""

other_store_argument = click.argument("other", metavar="OTHER", callback=_paths)
"""The same of a second store."""


def other_store_option(name: str, text: str) -> Callable[[Command], Command]:
    """Give a command an option that names a second store, with this help; None without it."""

    def paths(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[Path, ...] | None:
        return None if value is None else _paths(ctx, parameter, value)

    return click.option(name, metavar="STORE", callback=paths, help=text)
