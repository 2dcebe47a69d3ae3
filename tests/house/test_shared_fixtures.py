"""What a module's fixture made is made once, although two processes run the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import shared_fixtures

CONFTEST = """
from pathlib import Path
import pytest
from shared_fixtures import group_by_shared_fixtures

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    group_by_shared_fixtures(items, Path(__file__).parent)
"""
TESTS = """
import pytest

@pytest.fixture(scope="module", params=["one", "other"])
def made(request):
    with open("made", "a") as file:
        print(request.param, file=file)

@pytest.mark.parametrize("number", range(20))
def test_shares(made, number):
    pass

def test_has_its_own(tmp_path):
    pass
"""


def test_a_fixture_is_made_once_for_all_processes(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / "test_sharing.py").write_text(TESTS)
    (tmp_path / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", "tests"]
    environment = {**os.environ, "PYTHONPATH": str(Path(shared_fixtures.__file__).parent)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "41 passed" in done.stdout, done.stdout + done.stderr
    assert sorted((tmp_path / "made").read_text().split()) == ["one", "other"]
