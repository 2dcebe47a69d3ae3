"""The command line.

`main` knows the names of the commands and their modules; a module is imported when its command runs or when the help
lists it. Exit codes are in `failures`, one table for all commands.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kafkafs.allocation import keep_freed_memory, seldom_look_for_cycles
from kafkafs.cli.failures import reported, run_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CommandTable", "main"]


class CommandTable(click.Group):
    """A group of commands, each in the module that `modules` gives for its name; a failure ends in a sentence."""

    def __init__(self, *, modules: Mapping[str, str], **attributes: Any) -> None:  # noqa: ANN401 -- click's own arguments
        super().__init__(**attributes)
        self.modules = modules

    def __call__(self, args: Sequence[str] | None = None, prog_name: str | None = None) -> NoReturn:
        """Run as a program, which ends with SystemExit. Tests call `main`, with streams of their own."""
        keep_freed_memory()
        seldom_look_for_cycles()
        run_program(lambda: self.main(args, prog_name, standalone_mode=False))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names without importing anything."""
        return [*super().list_commands(ctx), *sorted(self.modules)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command by its name; return None if there is none of this name."""
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(self.modules[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command

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
        "retention": "kafkafs.cli.retention",
        "revive": "kafkafs.cli.revive",
        "spark": "kafkafs.cli.spark",
        "stats": "kafkafs.cli.stats",
        "topics": "kafkafs.cli.topics",
        "umount": "kafkafs.cli.umount",
        "verify": "kafkafs.cli.verify",
        "warm": "kafkafs.cli.warm",
    },
    name="kafkafs",
    help="A Kafka log as files: look into a broker's log directories without a broker.",
    epilog="Example: kafkafs dump /var/lib/kafka/orders-0/00000000000000000000.log",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(package_name="kafkafs", message="%(prog)s %(version)s")(main)
