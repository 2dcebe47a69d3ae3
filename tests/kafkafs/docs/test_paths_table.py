"""The table of views has what a mount lists and nothing else, and the page of semantics shows the table."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from group_stores import commit

from kafkafs.locator.views import View
from storage.clock import Clock
from storage.files import Files
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mounts import Mounted

pytestmark = pytest.mark.xdist_group("mount")

STRAY: Final = "orders-0.0123456789abcdef0123456789abcdef-stray"
METADATA: Final = "__cluster_metadata-0"
SHOWN: Final = {
    "<topic>": "orders",
    "<partition>": "0",
    "<record>": "last-2.json",
    "<records>": "0..2",
    "<time>": "2023-11-14",
    "<times>": "2023-11-14..now.jsonl",
    "<directory>": STRAY,
    "<number>": "1",
    "<view>": "topics",
    "<group>": "billing",
    "<position>": f"{0:020}.log@0",
}
MEANT: Final = {
    "<topic>": r"(?!by-time|\.)[^/]+",
    "<partition>": "[0-9]+",
    "<file>": r"(?![0-9]+$)[^/]+(?<!\.txt)",
    "<number>": "[0-9]+",
}


class Row(NamedTuple):
    path: str
    is_written: bool

    @property
    def pattern(self) -> re.Pattern[str]:
        """The paths that it stands for."""
        parts = re.split(r"(<[a-z]+>)", self.path.rstrip("/"))
        return re.compile("".join(MEANT.get(part, "[^/]+") if part[:1] == "<" else re.escape(part) for part in parts))

    @property
    def example(self) -> str:
        path = self.path.replace("<file>", "meta.properties" if "cluster" in self.path else f"{0:020}.log")
        for name, shown in SHOWN.items():
            path = path.replace(name, shown)
        return path


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [Row(view.path, view.is_written) for view in View if view is not View.ROOT]


@pytest.fixture
def mounted(tmp_path: Path, store_mounts: Callable[..., Mounted]) -> Mounted:
    """Mount a store of two log dirs that has something of everything."""
    log_dirs = [tmp_path / "a", tmp_path / "b"]
    with Store.create(log_dirs, files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 2)
        store.topics.create("by.time", 1)
        store.topics.create("__consumer_offsets", 1)
        commit(store, "billing", "orders", 0, 0)
    mount = store_mounts(",".join(map(str, log_dirs)), at="first")
    line = '{"value":"a","timestamp":1700000000000}'
    assert mount.run('echo \'{"value":"old","timestamp":1}\' >> orders/0/append.jsonl').returncode == 0
    assert mount.run(f"printf '%s\\n%s\\n%s\\n' '{line}' '{line}' '{line}' >> orders/0/append.jsonl").returncode == 0
    assert mount.end() == 0
    [directory] = tmp_path.glob("?/orders-0")
    log = directory / f"{0:020}.log"
    log.write_bytes(log.read_bytes().replace(b"old", b"OLD"))  # the first batch, whose checksum stays the same
    shutil.copytree(directory, log_dirs[0] / STRAY)
    (log_dirs[0] / METADATA).mkdir()
    (log_dirs[0] / METADATA / f"{0:020}.log").touch()
    return store_mounts(",".join(map(str, log_dirs)))


def listed(root: Path) -> Iterator[str]:
    for directory, directories, files in os.walk(root):
        yield from (os.path.relpath(Path(directory, name), root) for name in (*directories, *files))


def test_the_page_has_the_table(page: Callable[[str], str]) -> None:
    section = re.search(r"^## Every path\n(.*?)^## ", page("semantics"), re.MULTILINE | re.DOTALL)
    assert section is not None
    shown = [line for line in section[1].splitlines() if line.startswith("|")]
    lines = [f"| `{view.path}` | {view.about} | {view.writing} |" for view in View if view is not View.ROOT]
    assert shown == ["| path | what it is | written to |", "|---|---|---|", *lines]


def test_everything_that_is_listed_is_in_the_table(mounted: Mounted, rows: list[Row]) -> None:
    views = f".kafkafs/unattached/{STRAY}/"
    for path in listed(mounted.path):
        # What is unattached has the views of a partition, as its row says.
        known = f"orders/0/{path.removeprefix(views)}" if path.startswith(views) else path
        assert any(row.pattern.fullmatch(known) for row in rows), path


def test_every_row_of_the_table_is_there(mounted: Mounted, rows: list[Row]) -> None:
    assert len(rows) > 30
    for row in rows:
        place = mounted.path / row.example
        found = place.stat()
        assert stat.S_ISDIR(found.st_mode) == row.path.endswith("/"), row.path
        assert not stat.S_ISREG(found.st_mode) or bool(found.st_mode & 0o222) == row.is_written, row.path


def test_no_row_is_there_for_nothing(mounted: Mounted, rows: list[Row]) -> None:
    paths = list(listed(mounted.path))
    asked_for = {row.path for row in rows if re.search("<(records|time|times)>", row.path)}
    unseen = [row.path for row in rows if row.path not in asked_for and not any(map(row.pattern.fullmatch, paths))]
    assert not unseen
