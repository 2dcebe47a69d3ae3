"""What is taken from inside of pyfuse3 is there in the versions that are known, and others are refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pyfuse3
import pytest
import trio

from kafkafs.mount import pyfuse3_internals
from kafkafs.mount.errors import MountError
from kafkafs.mount.pyfuse3_internals import KNOWN, REQUIREMENT, check_pyfuse3, set_key, waiting_by

ROOT = Path(__file__).parents[3]


def test_the_one_that_is_installed_is_known() -> None:
    check_pyfuse3()


@pytest.mark.parametrize("version", ["3.4.0", "3.4.9", "3.5.0", "3.5.1.dev0"])
def test_what_is_known_is_taken(version: str) -> None:
    check_pyfuse3(version)


@pytest.mark.parametrize("version", ["3.3.0", "3.6.0", "3.40.0", "4.5.0", "35.0", "unknown"])
def test_others_are_refused_with_what_to_install(version: str) -> None:
    with pytest.raises(MountError) as refused:
        check_pyfuse3(version)
    sentence = f"pyfuse3 {version} is installed, but kafkafs works with 3.4 and 3.5 of it"
    assert str(refused.value) == f"{sentence}: run `pip install 'pyfuse3>=3.4,<3.6'`"


def test_the_requirement_is_the_same() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert REQUIREMENT in extras["fuse"]
    bounds = re.fullmatch(r"pyfuse3>=(\d+)\.(\d+),<(\d+)\.(\d+)", REQUIREMENT)
    assert bounds is not None
    low, high = (int(bounds[1]), int(bounds[2])), (int(bounds[3]), int(bounds[4]))
    assert (KNOWN[0], KNOWN[-1]) == (low, (high[0], high[1] - 1))


def test_nothing_else_reaches_into_it() -> None:
    inside = re.compile(r"vars\(pyfuse3\)|pyfuse3\.trio|pyfuse3\._|from_address|setattr\(pyfuse3")
    found = [path.name for path in (ROOT / "kafkafs").rglob("*.py") if inside.search(path.read_text())]
    assert found == ["pyfuse3_internals.py"]


def test_one_that_is_laid_out_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyfuse3_internals, "_KEY_POSITION", None)
    with pytest.raises(MountError, match="was built in a way that kafkafs does not know"):
        check_pyfuse3("3.5.0")


def test_a_key_is_set_and_nothing_else() -> None:
    entry = pyfuse3.EntryAttributes()
    entry.st_ino, entry.generation, entry.st_size = 7, 1 << 63, 5
    set_key(entry, 9)
    assert (entry.st_ino, entry.generation, entry.st_size) == (9, 1 << 63, 5)  # of the two numbers, `st_ino` shows this


def test_trio_is_there_again_afterwards() -> None:
    stand_in = object()
    with waiting_by(stand_in):
        assert vars(pyfuse3)["trio"] is stand_in
    assert vars(pyfuse3)["trio"] is trio
