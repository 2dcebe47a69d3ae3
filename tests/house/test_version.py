"""There is one version, and it is the one in the package's metadata."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import kafkafs

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_metadatas() -> None:
    assert kafkafs.__version__ == version("kafkafs")


def test_the_metadata_is_of_this_checkout() -> None:
    assert version("kafkafs") == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_no_module_has_another_version() -> None:
    assigned = [
        path
        for package in ("storage", "kafkafs")
        for path in (ROOT / package).rglob("*.py")
        if "__version__ =" in path.read_text()
    ]
    assert assigned == []
