"""The examples in the help of Spark's commands do what they are shown for."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from command_examples import COMMANDS, examples, made_here, make_stores

from kafkafs.cli import main

if TYPE_CHECKING:
    from pathlib import Path

OF_SPARK = "kafkafs spark"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith(OF_SPARK)])
def test_every_example_can_be_run(name: str, tmp_path: Path) -> None:
    make_stores(tmp_path)
    (tmp_path / "new.json").write_text('{"id":1}\n')
    for example in examples(name):
        words = shlex.split(example.rpartition("; ")[2].partition(" | ")[0])
        assert words[:1] == ["kafkafs"]
        done = CliRunner().invoke(main, [_place_of(word, tmp_path) for word in words[1:]])
        assert done.exit_code == 0, done.output


def _place_of(word: str, directory: Path) -> str:
    here = made_here(word)
    return word if here == word else str(directory / here)
