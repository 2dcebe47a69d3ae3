"""The options of commands that look into logs, as a mount has them with `-o`."""

from __future__ import annotations

from dataclasses import replace

import click

from kafkafs.tree.options import Damage, TreeOptions
from storage.log import Isolation

isolation_option = click.option(
    "--isolation",
    type=click.Choice([each.value for each in Isolation]),
    default=Isolation.UNCOMMITTED.value,
    show_default=True,
    help="Whether records of transactions that are open or were aborted are seen.",
)
damage_option = click.option(
    "--damage",
    type=click.Choice([each.value for each in Damage]),
    default=Damage.STOP.value,
    show_default=True,
    help="Whether to fail at a batch that cannot be decoded, or to leave it out.",
)


def tree_options(isolation: str, damage: str = Damage.STOP.value, *, list_limit: int | None = None) -> TreeOptions:
    """The options of a tree, from their texts."""
    options = TreeOptions(isolation=Isolation(isolation), damage=Damage(damage))
    return options if list_limit is None else replace(options, list_limit=list_limit)
