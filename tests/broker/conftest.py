"""How the tests of real brokers are given to workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shared_fixtures import group_by_shared_fixtures

if TYPE_CHECKING:
    import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    group_by_shared_fixtures(items, Path(__file__).parent)
