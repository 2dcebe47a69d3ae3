"""In which order the tests of mounts begin."""

from __future__ import annotations

from pathlib import Path

import pytest

LONG = (
    "test_every_record.py",
    "test_unmounting.py",
    "test_walks.py",
    "test_stress.py",
    "test_tools_on_files.py",
    "test_mounting.py",
    "test_tools_following.py",
)
"""The files whose tests take longest begin first, so that no worker goes on with one when the others are done."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        is_long = here in item.path.parents and item.path.name in LONG
        return LONG.index(item.path.name) if is_long else len(LONG)

    items.sort(key=place)
