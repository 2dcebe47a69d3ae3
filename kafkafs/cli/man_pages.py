"""Man pages made of the commands' own help: kafkafs(1), and one for each command, such as kafkafs-topics-create(1).

Every word of a page is the help's, so the two never differ. A minus sign is written as one, so that what is copied from
a page can be typed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from kafkafs.cli import NAMED_STORE, STORE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SIGNS: Final = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
)
_AS_IT_IS: Final = "\b"  # click's mark at the head of a block whose lines are not joined
_EXAMPLES: Final = re.compile(r"Examples?:$")
_SHORT_MAX: Final = 200


class ExitCode(NamedTuple):
    """A code that commands end with, or several."""

    code: str
    meaning: str


def page_name(ctx: click.Context) -> str:
    """Return the name of a command's page, without its section."""
    return ctx.command_path.replace(" ", "-")


def man_page(ctx: click.Context, version: str, codes: Sequence[ExitCode]) -> str:
    """Return the page of a command as man(7) has it."""
    command, name = ctx.command, page_name(ctx)
    lines = [f'.TH {_text(name.upper())} 1 "" "kafkafs {_text(version)}" "kafkafs"', ".SH NAME"]
    lines.append(f"{_text(name)} \\- {_line(command.get_short_help_str(_SHORT_MAX))}")
    lines += [".SH SYNOPSIS", f".B {_text(ctx.command_path)}", _line(" ".join(command.collect_usage_pieces(ctx)))]
    lines += [".SH DESCRIPTION", *_blocks(command.help or "")]
    if isinstance(command, click.Group):
        lines += [".SH COMMANDS", *_items(_commands(ctx, command))]
    options = (parameter for parameter in command.get_params(ctx) if isinstance(parameter, click.Option))
    records = (option.get_help_record(ctx) for option in options)
    lines += [".SH OPTIONS", *_items(record for record in records if record is not None)]
    lines += _blocks(command.epilog or "")
    if any(parameter.name == NAMED_STORE for parameter in command.params):
        named = [(STORE_VARIABLE, "The store, where neither an option nor the first argument names one.")]
        lines += [".SH ENVIRONMENT", *_items(named)]
    lines += [".SH EXIT STATUS", *_items(codes)]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_text(each)}\\fR(1)" for each in _neighbours(ctx)) or "mount(8)"]
    return "".join(f"{line}\n" for line in lines)


def _neighbours(ctx: click.Context) -> Iterator[str]:
    """Yield the names of the pages above and below."""
    parent = ctx.parent
    while parent is not None:
        yield page_name(parent)
        parent = parent.parent
    if isinstance(ctx.command, click.Group):
        yield from (f"{page_name(ctx)}-{name}" for name in sorted(ctx.command.list_commands(ctx)))


def _commands(ctx: click.Context, group: click.Group) -> Iterator[tuple[str, str]]:
    for name in sorted(group.list_commands(ctx)):
        command = group.get_command(ctx, name)
        assert command is not None
        yield name, command.get_short_help_str(_SHORT_MAX)


def _items(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for names, meaning in pairs:
        yield ".TP"
        yield f".B {_text(names)}"
        yield _line(meaning)


def _blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; what is laid out in lines stays so, and examples get a section."""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        head, *lines = block.strip("\n").splitlines() or [""]
        if head.strip() != _AS_IT_IS:
            yield from (".PP", _line(block))
            continue
        if _EXAMPLES.match(lines[0]):
            yield ".SH EXAMPLES"
            lines = lines[1:]
        else:
            yield ".PP"
        yield from (".nf", *map(_protected, map(_text, lines)), ".fi")


def _line(text: str) -> str:
    """Return a text as one line, which the reader's program wraps."""
    return _protected(_text(" ".join(text.split())))


def _text(text: str) -> str:
    return text.translate(_SIGNS)


def _protected(line: str) -> str:
    """Return the line so that groff takes it for text, also if it begins with a dot or a quote."""
    return rf"\&{line}" if line.startswith(".") else line
