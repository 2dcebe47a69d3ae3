"""The wheel, and a clean environment in which nothing but it and what it requires is installed.

`scripts/test wheel` makes both; the tests are not run otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from consoles import open_console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from consoles import Console


@pytest.fixture(scope="session")
def wheel() -> Path:
    """Give the wheel."""
    return _given("KAFKAFS_TEST_WHEEL")


@pytest.fixture(scope="session")
def programs() -> Path:
    """Give the directory of the programs in the environment in which the wheel is installed."""
    return _given("KAFKAFS_TEST_INSTALLED") / "bin"


def _given(name: str) -> Path:
    if name not in os.environ:
        pytest.skip("not run: only `scripts/test wheel` builds and installs a wheel")
    return Path(os.environ[name])


@pytest.fixture
def console(programs: Path, tmp_path: Path) -> Iterator[Console]:
    """Open a shell in an empty directory that finds the installed programs."""
    with open_console(tmp_path, {name: str(programs / name) for name in ("kafkafs", "python3")}) as opened:
        yield opened
