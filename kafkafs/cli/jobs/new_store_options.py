"""The options of the jobs that make a new store: its place, and its topics' settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

target_argument = click.argument("target", type=click.Path(path_type=Path))
"""The path of the new store."""


def _settings(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE", ctx, parameter)
        settings[key] = value
    return settings


set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_settings,
    help="A setting that holds for the topics in the new store; may be given several times.",
)
"""Settings of topics, by their keys."""
