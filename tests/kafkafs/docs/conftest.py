"""The shipped pages, and a shell that types what stands in their examples."""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import pytest
from consoles import open_console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from consoles import Console


class Example(NamedTuple):
    """A command of a page, and what it prints."""

    line: int
    command: str
    output: str


def _examples_of(page: str) -> Iterator[Example]:
    """The commands in a page's console blocks, in their order: `$ ` begins one, `> ` goes on with it."""
    is_console = False
    line, command, output = 0, "", []
    for number, text in enumerate(page.splitlines(), 1):
        if text.startswith(("```", "$ ")) and command:
            yield Example(line, command, "".join(f"{each}\n" for each in output))
            command, output = "", []
        if text.startswith("```"):
            is_console = text == "```console"
        elif is_console and text.startswith("$ "):
            line, command = number, text[2:]
        elif is_console and text.startswith("> ") and not output:
            command = f"{command}\n{text[2:]}"
        elif is_console:
            assert command, f"line {number} is the output of no command"
            output.append(text)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """Open a shell in an empty directory that finds kafkafs and Python as the tests do."""
    with open_console(tmp_path, {"kafkafs": f"{sys.executable} -P -m kafkafs", "python3": sys.executable}) as opened:
        yield opened


@pytest.fixture(scope="session")
def page() -> Callable[[str], str]:
    """Give the text of a page as it is shipped, by its name."""
    return lambda name: files("kafkafs").joinpath("docs", f"{name}.md").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def examples_of() -> Callable[[str], Iterator[Example]]:
    """Take a page apart into its examples."""
    return _examples_of
