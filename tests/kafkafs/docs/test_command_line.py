"""What is written about the command line is complete, and as the commands are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner
from command_examples import COMMANDS, OF_SPARK, examples, run_examples

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from consoles import Console

# The examples mount.
pytestmark = pytest.mark.xdist_group("mount")


def test_the_page_is_what_the_commands_say(page: Callable[[str], str]) -> None:
    printed = CliRunner().invoke(main, ["help", "cli"], prog_name="kafkafs")
    assert printed.stdout == page("cli"), "regenerate it: ./scripts/kafkafs help cli > kafkafs/docs/cli.md"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_says_what_it_does(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    silent = [
        parameter.name for parameter in command.params if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert not silent
    assert examples(name)
    assert any(re.search(rf"\b{name}\b", example) for example in examples(name))


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith(OF_SPARK)])
def test_every_example_can_be_run(console: Console, example_stores: Path, name: str) -> None:
    run_examples(name, console, example_stores)


def test_help_shows_commands_and_pages(page: Callable[[str], str]) -> None:
    def printed(*words: str) -> str:
        found = CliRunner().invoke(main, ["help", *words], prog_name="kafkafs")
        assert (found.exit_code, found.stderr) == (0, "")
        return found.stdout

    listed = printed()
    assert all(f"\n  {name} " in listed for name in (*main.modules, "semantics", "troubleshooting", "pyspark", "cli"))
    assert printed("semantics") == page("semantics")
    assert printed("troubleshooting") == page("troubleshooting")
    asked = CliRunner().invoke(main, ["topics", "create", "--help"], prog_name="kafkafs").stdout
    assert printed("topics", "create") == asked


@pytest.mark.parametrize("words", [["nothing"], ["topics", "nothing"], ["semantics", "more"], ["mount", "now"]])
def test_help_on_what_there_is_not_says_so(words: list[str]) -> None:
    found = CliRunner().invoke(main, ["help", *words], prog_name="kafkafs")
    assert found.exit_code == 2
    assert f"there is no help on {' '.join(words)!r}; `kafkafs help` lists commands and pages" in found.stderr


def test_pages_are_shown_by_the_pager_of_a_terminal(console: Console) -> None:
    console.run("printf '#!/bin/sh\\necho paged; cat > /dev/null\\n' > ../pager; chmod +x ../pager")
    shown = console.run("PAGER=../pager script -qec 'kafkafs help semantics' /dev/null < /dev/null")
    assert shown.strip() == "paged"
