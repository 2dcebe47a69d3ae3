"""Which tests of a folder have to be run by one worker: those that share what a module's fixture made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def group_by_shared_fixtures(items: list[pytest.Item], folder: Path) -> None:
    """Group the tests below a folder for `--dist loadgroup`; the others go to any worker that is free."""
    for item in items:
        if folder in item.path.parents and isinstance(item, pytest.Function):
            found = [each for fixtures in item._fixtureinfo.name2fixturedefs.values() for each in fixtures]
            shared = [fixture.argname for fixture in found if fixture.scope == "module"]
            if shared:
                given = item.callspec.params if hasattr(item, "callspec") else {}
                made_of = [str(given[name]) for name in shared if name in given]
                item.add_marker(pytest.mark.xdist_group(" ".join([item.path.name, *made_of])))
