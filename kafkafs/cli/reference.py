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

## Exit codes

They mean the same for every command. A failure of kafkafs, of its output, or of the disk never has the code of a
finding.

| code | what it means |
|---|---|
| 0 | done, planned, sound, the same |
| 1 | found: damage by `verify` or `dump`, a difference, a gap; or not found: a path, a topic, a file, a mount |
| 2 | wrong usage, a name or a setting that cannot be, or no store |
| 3 | failed: an error of the disk, damage met by `cat` or `warm`, something refused, such as a topic that exists \
already or a record that does not fit, output not written, a bug |
| 129, 143 | ended by SIGHUP or SIGTERM, as with SIGINT |
| 130 | interrupted by SIGINT; a command that changes a store first finishes the partition that it is at |
| 141 | nothing reads the output any more; a command that changes a store has finished all the same |

Where several paths are given, the highest code wins. `mount.kafkafs`, which mount(8) runs, has the codes of mount(8): 1
wrong usage or no store, 8 interrupted, 32 the mount failed.
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
