"""Which cases are run: a sample of the corpus, or with scripts/prove all of it at full size."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hostile import CASES, Scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hostile import HostileStore

IS_PROOF = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
SCALE = Scale.FULL if IS_PROOF else Scale.SAMPLE

SAMPLE = (
    "links as all files of a partition",
    "FIFOs as all files of a partition",
    "FIFOs as segments of many topics",
    "a terabyte as 00000000000000000000.log of a partition",
    "a staged file with nested in its index",
    "a ledger of 1e400",
    "control characters in names",
    "a bomb of headers in zstd",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that has a `case` those of the run."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", list(CASES) if IS_PROOF else SAMPLE)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], HostileStore]]:
    """Make the store of a case, which is removed afterwards: it may have a million files."""

    def make(case: str) -> HostileStore:
        return CASES[case].make(tmp_path / "hostile", SCALE)

    yield make
    shutil.rmtree(tmp_path / "hostile")
