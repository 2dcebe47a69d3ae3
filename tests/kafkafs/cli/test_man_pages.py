"""The man pages are the help of the commands: groff finds no fault with them, and no word of the help is missing."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from command_examples import COMMANDS

from kafkafs.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the pages."""
    directory = tmp_path_factory.mktemp("man") / "share" / "man1"
    written = CliRunner().invoke(main, ["help", "--man", str(directory)], prog_name="python -m kafkafs")
    assert (written.exit_code, written.output) == (0, "")
    return directory


def groff(*arguments: str | Path) -> str:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    command = ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_there_is_a_page_for_each_command_and_groff_finds_no_fault(pages: Path) -> None:
    written = sorted(pages.iterdir())
    assert sorted(page.stem for page in written) == sorted(name.replace(" ", "-") for name in COMMANDS)
    groff("-z", *written)


@pytest.mark.parametrize("name", ["kafkafs", "kafkafs mount", "kafkafs cat", "kafkafs topics create", "kafkafs top"])
def test_no_word_of_the_help_is_missing(pages: Path, name: str) -> None:
    page = groff("-rLL=9000n", "-rHY=0", pages / f"{name.replace(' ', '-')}.1")
    shown = CliRunner().invoke(main, [*name.split()[1:], "--help"], prog_name="kafkafs", terminal_width=9000)
    told = set(shown.output.replace("Usage:", "").replace("Options:", "").replace("Commands:", "").split())
    assert told - set(page.split()) <= {"Example:", "Examples:"}
    for number in ("0", "1", "2", "3", "130", "141"):
        assert f"\n       {number} " in page
    assert "\u2010" not in page  # what is copied from a page can be typed
    assert "\u2019" not in page


def test_pages_are_of_all_commands(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["help", "--man", str(tmp_path), "top"], prog_name="kafkafs")
    assert refused.exit_code == 2
    assert "it takes no TOPIC" in refused.stderr
    (tmp_path / "file").touch()
    beside = CliRunner().invoke(main, ["help", "--man", str(tmp_path / "file" / "man1")], prog_name="kafkafs")
    assert beside.exit_code == 3
    assert "Not a directory" in beside.stderr
