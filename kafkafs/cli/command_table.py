"""A group of commands whose modules are imported when they are needed, and which ends every failure in a sentence."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kafkafs.allocation import keep_freed_memory
from kafkafs.cli.failures import reported, run_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CommandTable(click.Group):
    """Commands by name; the module that `modules` gives for a name holds the command under that name."""

    def __init__(self, *, modules: Mapping[str, str], **attributes: Any) -> None:  # noqa: ANN401 -- click's own arguments
        super().__init__(**attributes)
        self.modules = modules

    def __call__(self, args: Sequence[str] | None = None, prog_name: str | None = None) -> NoReturn:
        """Run as a program, which ends with SystemExit. Tests run `main`, with streams of their own."""
        keep_freed_memory()
        run_program(lambda: self.main(args, prog_name, standalone_mode=False))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names without importing anything."""
        return [*super().list_commands(ctx), *sorted(self.modules)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command by its name; None when there is none of this name."""
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
        """Run the command. What it printed has left the process when this returns."""
        with reported():
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result
