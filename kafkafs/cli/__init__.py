"""The command line.

`main` knows the names of the commands and their modules; a module is imported when its command runs or when the help
lists it. Exit codes are in `failures`, one table for all commands.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kafkafs.allocation import keep_freed_memory, seldom_look_for_cycles
from kafkafs.cli.failures import ended_quietly_by_interrupts, reported, run_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from click.shell_completion import CompletionItem

__all__ = ["NAMED_STORE", "STORE_VARIABLE", "CommandTable", "main"]

_COMPLETION_VARIABLE = "_KAFKAFS_COMPLETE"
STORE_VARIABLE = "KAFKAFS_STORE"
NAMED_STORE = "named_store"  # the option of every command that takes STORE first
_NONE: Mapping[str, str] = MappingProxyType({})


class CommandTable(click.Group):
    """A group of commands, each in the module that `modules` gives for its name; a failure ends in a sentence.

    A command answers to its `aliases` too, which no list shows. `hints` say which command does what other tools call
    by a word that is none here.
    """

    def __init__(
        self,
        *,
        modules: Mapping[str, str],
        aliases: Mapping[str, str] = _NONE,
        hints: Mapping[str, str] = _NONE,
        **attributes: Any,  # noqa: ANN401 -- click's own arguments
    ) -> None:
        super().__init__(**attributes)
        self.modules = modules
        self.aliases = aliases
        self.hints = hints

    def __call__(self, args: Sequence[str] | None = None, prog_name: str | None = None) -> NoReturn:
        """Run as a program, which ends with SystemExit. Tests call `main`, with streams of their own."""
        if _COMPLETION_VARIABLE in os.environ:
            from kafkafs.cli.completion import end_in_time  # from the module that tells click how shells are answered

            end_in_time()
        keep_freed_memory()
        seldom_look_for_cycles()
        run_program(lambda: self.main(args, prog_name, standalone_mode=False))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names without importing anything."""
        return [*super().list_commands(ctx), *sorted(self.modules)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command by its name; return None if there is none of this name."""
        cmd_name = self.aliases.get(cmd_name, cmd_name)
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        with ended_quietly_by_interrupts():
            module = import_module(self.modules[cmd_name])
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names; a usage error says what other words mean here."""
        if args[0] in self.hints and not ctx.resilient_parsing:
            raise click.UsageError(f"there is no command {args[0]!r}: {self.hints[args[0]]}", ctx)
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if near:
                raise click.UsageError(f"there is no command {args[0]!r}; did you mean {near[0]}?", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else _with_named_store(ctx, args[0], command, rest)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the names of commands that begin so, without importing one, or options."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in self.list_commands(ctx) if name.startswith(incomplete)]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 -- click's own arguments
    ) -> click.Context:
        """Parse what stands before the command; help and version are printed here."""
        with reported():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Everything that it printed has left the process when this returns."""
        with reported():
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result


def _with_named_store(ctx: click.Context, name: str, command: click.Command, args: list[str]) -> list[str]:
    """Return the arguments with the store in front that an option or KAFKAFS_STORE names, if the command takes one."""
    if not any(parameter.name == NAMED_STORE for parameter in command.params):
        return args
    context = click.Context(command, info_name=name, parent=ctx, resilient_parsing=ctx.resilient_parsing)
    given, _, _ = command.make_parser(context).parse_args(list(args))
    store = given.get(NAMED_STORE) or os.environ.get(STORE_VARIABLE)
    return [store, *args] if store else args


_HINTS = {
    "browse grep search": "`kafkafs find STORE --grep RE` finds records",
    "check fsck validate": "`kafkafs verify STORE` checks a store",
    "clean purge truncate": "`kafkafs retention STORE` shows what retention would delete, and deletes it with --apply",
    "config configure alter": "`kafkafs topics config STORE TOPIC` prints the settings of a topic, or changes them",
    "consume get head print read show": "`kafkafs cat STORE TOPIC/PARTITION/values` prints the values of a log",
    "consumers lag offsets": "`kafkafs groups STORE` prints groups, their offsets and their lag",
    "copy cp": "`kafkafs backup STORE DEST` copies a store",
    "count du size": "`kafkafs stats STORE` counts records and bytes",
    "create mkdir": "`kafkafs topics create STORE TOPIC` makes a topic",
    "decode inspect": "`kafkafs dump FILE` prints a file of a broker",
    "delete remove rm rmdir": "`kafkafs topics delete STORE TOPIC` shows what would be deleted with a topic, and "
    "deletes it with --apply; `kafkafs retention STORE` does so for old records",
    "describe list": "`kafkafs topics list STORE` lists topics, and `kafkafs ls STORE PATH` what is at a path",
    "follow watch": "`kafkafs tail STORE TOPIC` prints the records of a topic as they are appended",
    "fix repair": "`kafkafs recover STORE` shows what would repair a store, and repairs it with --apply",
    "extract rescue": "`kafkafs salvage STORE TOPIC/PARTITION DIR` copies what is intact of a damaged partition",
    "produce put write": "`kafkafs append STORE TOPIC/PARTITION/append` stores each line of its input as a record",
    "complete completion completions": "`kafkafs help cli` says how shells complete its commands",
    "restore": "a run of `kafkafs backup` is a store by itself; `kafkafs revive RUN --into DIR` makes one for a broker",
    "version": "`kafkafs --version` prints the version",
}

main = CommandTable(
    modules={
        "append": "kafkafs.cli.append",
        "backup": "kafkafs.cli.backup",
        "cat": "kafkafs.cli.cat",
        "compact": "kafkafs.cli.compact",
        "demo": "kafkafs.cli.demo",
        "diff": "kafkafs.cli.diff",
        "dump": "kafkafs.cli.dump",
        "explain": "kafkafs.cli.explain",
        "find": "kafkafs.cli.find",
        "groups": "kafkafs.cli.groups",
        "help": "kafkafs.cli.help",
        "ls": "kafkafs.cli.ls",
        "mount": "kafkafs.cli.mount",
        "recover": "kafkafs.cli.recover",
        "report": "kafkafs.cli.report",
        "retention": "kafkafs.cli.retention",
        "revive": "kafkafs.cli.revive",
        "salvage": "kafkafs.cli.salvage",
        "spark": "kafkafs.cli.spark",
        "stats": "kafkafs.cli.stats",
        "tail": "kafkafs.cli.tail",
        "top": "kafkafs.cli.top",
        "topics": "kafkafs.cli.topics",
        "umount": "kafkafs.cli.umount",
        "verify": "kafkafs.cli.verify",
        "warm": "kafkafs.cli.warm",
    },
    aliases={"unmount": "umount"},
    hints={word: hint for words, hint in _HINTS.items() for word in words.split()},
    name="kafkafs",
    help="A Kafka log as files: look into a broker's log directories without a broker.",
    epilog="Example: kafkafs dump /var/lib/kafka/orders-0/00000000000000000000.log",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(None, "-V", "--version", package_name="kafkafs", message="%(prog)s %(version)s")(main)
