"""The installed program goes once through each command: every example in its help is run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_examples import COMMANDS, OF_SPARK, make_stores, run_examples, words_of_examples

if TYPE_CHECKING:
    from consoles import Console

WALK = Path(__file__).with_name("spark_commands.py")
TIME_S_MAX = 300


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith(OF_SPARK)])
def test_every_example_can_be_run(console: Console, example_stores: Path, name: str) -> None:
    run_examples(name, console, example_stores)


def test_every_example_of_spark_can_be_run(programs: Path, spark_settings: dict[str, str], tmp_path: Path) -> None:
    """One process and one session run all of them, because starting Spark takes longer than a command."""
    calls = []
    for name in (name for name in COMMANDS if name.startswith(OF_SPARK)):
        directory = tmp_path / name.rpartition(" ")[2]
        directory.mkdir()
        make_stores(directory)
        calls += words_of_examples(name, directory)
    done = subprocess.run(
        [programs / "python", "-P", WALK, json.dumps(spark_settings), json.dumps(calls)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_S_MAX,
        env={**os.environ, "PYSPARK_PYTHON": str(programs / "python")},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert [json.loads(line) for line in done.stdout.splitlines()[-len(calls) :]] == calls
