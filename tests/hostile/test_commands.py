"""Every command over every hostile store: it answers or shows progress, within its memory, and touches nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hostile import CASES
from hostile.runs import CHANGING, READING, dumps, faults_of

from .conftest import IS_PROOF

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostile import HostileStore

pytestmark = pytest.mark.e2e

SAMPLE = [
    ("ls", "-l", "STORE", "victim/0"),
    ("cat", "STORE", "victim/0/offset/5"),
    ("cat", "STORE", "victim/0/values"),
    ("verify", "STORE"),
    ("salvage", "--even-unsummed", "STORE", "victim/0", "NEW"),
    ("recover", "STORE"),
    ("append", "STORE", "sound/0/append"),
    ("recover", "--apply", "--withdraw-commit", "STORE"),
]


def test_a_command_answers(case: str, made: Callable[[str], HostileStore]) -> None:
    store = made(case)
    is_one_file = CASES[case].kind in {"replaced", "staged", "ledger"}  # of many that are alike
    commands = [*READING, *dumps(store), *CHANGING] if IS_PROOF and not is_one_file else SAMPLE
    # A hard link is another name of the same file, whose contents a command may read.
    faults, outcomes = faults_of(store, commands, watches="hard link" not in case)
    assert not faults, "\n".join(faults)
    sound = next(each for each in outcomes if each.arguments[-1] == "sound/0/append")
    assert sound.exit_code == 0 or "store" in sound.shown
