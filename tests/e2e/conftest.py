"""In which order the tests of mounts begin, and which of them one worker runs."""

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


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one worker run all tests of a file: first the group of mounts in tests/kafkafs, then the long files."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.xdist_group(item.path.name))

    def place(item: pytest.Item) -> int:
        if here.parent / "kafkafs" in item.path.parents:
            return 0
        return 1 + (LONG.index(item.path.name) if item.path.name in LONG else len(LONG))

    items.sort(key=place)
