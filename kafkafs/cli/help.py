"""`kafkafs help`: the help of a command, every command's help on one page, and the pages that come with kafkafs."""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_REFERENCE: Final = "cli"
_PAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "semantics": "What the files of a mount mean: names, reading, writing, living.",
        "python": "A store from Python: kafkafs.open, what it reads, follows and appends, and what it raises.",
        "pyspark": "A store through Spark: queries, streams, jobs, from a laptop to a cluster.",
        "backup": "Backups of a store, a broker's live one too: what a run is and costs, restoring, a timer.",
        "revive": "From the disks of dead brokers to a running one: four rehearsed disasters.",
        "incidents": "Ten incidents: what you see, three commands each, and the decision to take.",
        "services": "Mounts, maintenance and backups under systemd, a line in fstab, containers.",
        "security": "Who may write a store, use a mount or produce, and what each can and cannot reach.",
        "troubleshooting": "What each error says, and what to do about it.",
        "changes": "What has changed, for scripts that use kafkafs.",
        _REFERENCE: "The help of every command on one page, and the exit codes.",
    }
)
_WIDTH: Final = 100
_EXIT_CODE: Final = re.compile(r"^\| (\d[\d, ]*) \| (.+) \|$", re.MULTILINE)
_HEAD: Final = """\
# The command line

Every command's help, as `kafkafs help COMMAND` prints it. This page is what `kafkafs help cli`
prints.

## STORE

A store is the path of a log directory, or several with commas between them, as in `log.dirs`. A
`file:` URI means the same as its path. A backup in object storage is read where it is:

    kafkafs ls 's3://backups/kafka'
    kafkafs verify 's3://backups/kafka?region=eu-west-1'
    kafkafs cat 's3://backups/kafka?endpoint_override=minio:9000&scheme=http' orders/0/offset/42

Commands that only read take `s3://`, `gs://`, `abfs://` and, where Hadoop's libhdfs is, `hdfs://`:
`ls`, `cat`, `dump`, `verify`, `stats`, `groups`, `topics list`, and the jobs of `kafkafs spark`.
They need pyarrow (`pip install 'kafkafs[arrow]'`), which finds credentials in the environment
(`AWS_ACCESS_KEY_ID`, `GOOGLE_APPLICATION_CREDENTIALS`), in a profile (`AWS_PROFILE`) or by the
machine's role; a URI with credentials is refused, because messages and process lists show it. The
options after `?` are pyarrow's, such as `region`, `endpoint_override` and `scheme`; quote them for
the shell.

A prefix is a directory, and partitions are prefixes in it. A listing counts for a second. Records
are found by reading the indexes whole and the log near the place that they name. Nothing is
written, locked or mounted there: copy the store to a directory for that. What the object store
refuses, or does not answer after several tries, ends a command with code 3.

Commands that take STORE first also take it from `-s STORE` or, without that, from the variable
`KAFKAFS_STORE`. Then the first argument is what would come after STORE:

    export KAFKAFS_STORE=/var/lib/kafka
    kafkafs cat orders/0/offset/latest

## Completion

With one of these lines in the shell's own file, TAB completes commands, options, topics, groups,
and the paths of the store that the line or `KAFKAFS_STORE` names, with the formats of records:

    eval "$(_KAFKAFS_COMPLETE=bash_source kafkafs)"    # ~/.bashrc
    eval "$(_KAFKAFS_COMPLETE=zsh_source kafkafs)"     # ~/.zshrc, after compinit
    _KAFKAFS_COMPLETE=fish_source kafkafs | source     # ~/.config/fish/config.fish

It reads beside a broker or a mount, takes no lock, and gives up after five seconds.

## Man pages

They are made of this help, for `man kafkafs`, `man kafkafs-cat` and the like:

    kafkafs help --man ~/.local/share/man/man1    # or /usr/local/share/man/man1, for all users

## Exit codes

They mean the same for every command. A failure of kafkafs, of its output, or of the disk never has
the code of a finding.

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

Where several paths are given, the highest code wins. `mount.kafkafs`, which mount(8) runs, has the
codes of mount(8): 1 wrong usage or no store, 8 interrupted, 32 the mount failed.
"""


def _topics(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the commands and pages that begin so, for a shell."""
    assert isinstance(ctx.parent, click.Context)
    assert isinstance(ctx.parent.command, click.Group)
    return [name for name in (*ctx.parent.command.list_commands(ctx), *_PAGES) if name.startswith(incomplete)]


@click.command(
    "help",
    epilog="\b\nExamples:\n  kafkafs help semantics\n  kafkafs help topics create\n  kafkafs help --man /tmp/man/man1",
)
@click.argument("topic", nargs=-1, metavar="[TOPIC]...", shell_complete=_topics)
@click.option(
    "--man",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the man pages of all commands into a directory, which is made if it is missing.",
)
@click.pass_context
def help(ctx: click.Context, topic: tuple[str, ...], directory: Path | None) -> None:  # noqa: A001 -- its name
    """Print the help of a command, or a page.

    TOPIC is a command, such as mount or topics create, or a page; without one, all are listed. On a terminal a pager
    shows it.
    """
    assert ctx.parent is not None
    if directory is not None:
        if topic:
            raise click.UsageError("--man writes the pages of all commands, so it takes no TOPIC.")
        _write_man_pages(ctx.parent, directory)
    elif not topic:
        _list(ctx.parent)
    elif topic == (_REFERENCE,):
        click.echo_via_pager(_reference(ctx.parent).removesuffix("\n"))
    elif len(topic) == 1 and topic[0] in _PAGES:
        page = files("kafkafs").joinpath("docs", f"{topic[0]}.md")
        click.echo_via_pager(page.read_text(encoding="utf-8").removesuffix("\n"))
    else:
        described = _described(ctx.parent, topic)
        click.echo(described.command.get_help(described))


def _write_man_pages(ctx: click.Context, directory: Path) -> None:
    from kafkafs.cli.man_pages import ExitCode, man_page, page_name

    codes = [ExitCode(code, meaning) for code, meaning in _EXIT_CODE.findall(_HEAD)]
    directory.mkdir(parents=True, exist_ok=True)
    for each in _contexts(_root(ctx)):
        page = man_page(each, version("kafkafs"), codes)
        (directory / f"{page_name(each)}.1").write_text(page, encoding="utf-8")


def _list(ctx: click.Context) -> None:
    formatter = ctx.make_formatter()
    ctx.command.format_help(ctx, formatter)
    with formatter.section("Pages, shown by kafkafs help PAGE"):
        formatter.write_dl(list(_PAGES.items()))
    click.echo(formatter.getvalue().rstrip("\n"))


def _described(ctx: click.Context, names: Sequence[str]) -> click.Context:
    """Return the context of the command that these words name."""
    for name in names:
        command = ctx.command.get_command(ctx, name) if isinstance(ctx.command, click.Group) else None
        if command is None:
            raise click.UsageError(f"there is no help on {' '.join(names)!r}; `kafkafs help` lists commands and pages")
        ctx = click.Context(command, info_name=name, parent=ctx)
    return ctx


def _reference(ctx: click.Context) -> str:
    """Return the page for the command of a context and those below it, the same on every terminal."""
    sections = (_section(each) for each in _contexts(_root(ctx)))
    return "\n".join([_HEAD, *sections])


def _root(ctx: click.Context) -> click.Context:
    """Return a context of the same command that nothing of this process shows in."""
    return click.Context(ctx.command, info_name="kafkafs", help_option_names=ctx.help_option_names)


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
