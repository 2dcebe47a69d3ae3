"""How the tests of real brokers are given to workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_brokers import PROVES
from shared_fixtures import group_by_shared_fixtures

collect_ignore = [] if PROVES else ["test_revived_clock.py"]
"""What only a proof runs."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    group_by_shared_fixtures(items, Path(__file__).parent)
