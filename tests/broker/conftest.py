"""Tests that share what a module's fixture made are run by one worker; the others go to any that is free."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and isinstance(item, pytest.Function):
            found = [each for fixtures in item._fixtureinfo.name2fixturedefs.values() for each in fixtures]
            shared = [fixture.argname for fixture in found if fixture.scope == "module"]
            if shared:
                given = item.callspec.params if hasattr(item, "callspec") else {}
                made_of = [str(given[name]) for name in shared if name in given]
                item.add_marker(pytest.mark.xdist_group(" ".join([item.path.name, *made_of])))
