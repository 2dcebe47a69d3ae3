"""The examples in the help of Spark's commands do what they are shown for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from command_examples import COMMANDS, OF_SPARK, make_stores, words_of_examples

from kafkafs.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith(OF_SPARK)])
def test_every_example_can_be_run(name: str, tmp_path: Path) -> None:
    make_stores(tmp_path)
    for words in words_of_examples(name, tmp_path):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
