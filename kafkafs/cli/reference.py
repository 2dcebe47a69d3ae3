"""Every command's help on one page, in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH: Final = 100
_HEAD: Final = """\
# The command line

Every command's help, as `kafkafs help COMMAND` prints it. This page is what `kafkafs help cli` prints.
"""


def reference(ctx: click.Context) -> str:
    """The page for the command of a context and all below it, the same on every terminal."""
    root = click.Context(ctx.command, info_name=ctx.info_name, help_option_names=ctx.help_option_names)
    sections = (_section(each) for each in _contexts(root))
    return "\n".join([_HEAD, *sections])


def _contexts(ctx: click.Context) -> Iterator[click.Context]:
    ctx.terminal_width = ctx.max_content_width = _WIDTH
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in sorted(ctx.command.list_commands(ctx)):
            command = ctx.command.get_command(ctx, name)
            assert command is not None
            yield from _contexts(click.Context(command, info_name=name, parent=ctx))


def _section(ctx: click.Context) -> str:
    lines = (line.rstrip() for line in ctx.command.get_help(ctx).splitlines())
    return "\n".join([f"## `{ctx.command_path}`", "", "```", *lines, "```", ""])
