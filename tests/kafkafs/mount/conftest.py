"""A mounted tree in memory for each test that asks for one."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mounts import require_fuse, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mounts import Mounted

TREE = Path(__file__).with_name("memory_tree.py")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one worker of a parallel run do all of them: a mount that is looked at just then cannot be taken away."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("mount"))


@contextmanager
def mounting_in(directory: Path) -> Iterator[Callable[..., Mounted]]:
    """Mount the tree with options, as often as is asked; all is unmounted at the end."""
    require_fuse()
    found: list[Mounted] = []
    store = directory / "store"
    store.mkdir()

    def mount(*options: str, at: str = "mnt") -> Mounted:
        mounted = serving([sys.executable, TREE, directory / at, store, *options], directory / at)
        found.append(mounted)
        return mounted

    try:
        yield mount
    finally:
        for mounted in found:
            mounted.remove()


@pytest.fixture
def mounting(tmp_path: Path) -> Iterator[Callable[..., Mounted]]:
    """Mount the tree with options."""
    with mounting_in(tmp_path) as mount:
        yield mount


@pytest.fixture
def mounted(mounting: Callable[..., Mounted]) -> Mounted:
    """Mount the tree without options."""
    return mounting()


@pytest.fixture(scope="module")
def shared_mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    """Mount the tree once for tests that only read."""
    with mounting_in(tmp_path_factory.mktemp("unchanged")) as mount:
        yield mount()
