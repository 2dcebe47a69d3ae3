"""`kafkafs help`: what a command does, and the pages that come with kafkafs."""

from __future__ import annotations

from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.reference import reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REFERENCE: Final = "cli"
_PAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "semantics": "What the files of a mount mean: names, reading, writing, living.",
        "python": "A store from Python: kafkafs.open, what it reads, follows and appends, and what it raises.",
        "pyspark": "A store through Spark: queries, streams, jobs, from a laptop to a cluster.",
        "troubleshooting": "What each error says, and what to do about it.",
        "changes": "What has changed, for scripts that use kafkafs.",
        _REFERENCE: "The help of every command on one page, and the exit codes.",
    }
)


@click.command("help", epilog="\b\nExamples:\n  kafkafs help semantics\n  kafkafs help topics create")
@click.argument("topic", nargs=-1, metavar="[TOPIC]...")
@click.pass_context
def help(ctx: click.Context, topic: tuple[str, ...]) -> None:  # noqa: A001 -- what the command is called
    """Print the help of a command, or a page.

    TOPIC is a command, such as mount or topics create, or a page; without one, all are listed. On a terminal a pager
    shows it.
    """
    assert ctx.parent is not None
    if not topic:
        _list(ctx.parent)
    elif topic == (_REFERENCE,):
        click.echo_via_pager(reference(ctx.parent).removesuffix("\n"))
    elif len(topic) == 1 and topic[0] in _PAGES:
        page = files("kafkafs").joinpath("docs", f"{topic[0]}.md")
        click.echo_via_pager(page.read_text(encoding="utf-8").removesuffix("\n"))
    else:
        described = _described(ctx.parent, topic)
        click.echo(described.command.get_help(described))


def _list(ctx: click.Context) -> None:
    formatter = ctx.make_formatter()
    ctx.command.format_help(ctx, formatter)
    with formatter.section("Pages, shown by kafkafs help PAGE"):
        formatter.write_dl(list(_PAGES.items()))
    click.echo(formatter.getvalue().rstrip("\n"))


def _described(ctx: click.Context, names: Sequence[str]) -> click.Context:
    """The context of the command that these words name."""
    for name in names:
        command = ctx.command.get_command(ctx, name) if isinstance(ctx.command, click.Group) else None
        if command is None:
            raise click.UsageError(f"there is no help on {' '.join(names)!r}; `kafkafs help` lists commands and pages")
        ctx = click.Context(command, info_name=name, parent=ctx)
    return ctx
