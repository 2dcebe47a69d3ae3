"""Groups whose ids were made to lead astray, through a real mount: nothing leaves it, and everything ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_stores import commit

from storage.clock import Clock
from storage.files import Files
from storage.internal import offsets
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

IDS = ("../x", "..", ".", "", "a/b", "/etc/passwd", "new\nline", "nul\0", "\x1b[31m", "\udcff", "%2E", "x" * 300, "ok")


def test_hostile_groups_are_files_of_their_own(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1)
        store.topics.create(offsets.TOPIC, 1)
        for number, group in enumerate(IDS):
            commit(store, group, "orders", 0, number)
    mounted = store_mounts(tmp_path / "store")
    listed = mounted.run("ls -A .kafkafs/groups").stdout.splitlines()
    assert len(listed) == len(IDS)
    found = mounted.run("find .kafkafs/groups -type f -size +0 | wc -l")
    assert (found.stdout.strip(), found.stderr) == (str(len(IDS)), "")
    read = mounted.run("find .kafkafs/groups -type f -exec tail -qn 1 {} + | cut -f 4 | sort -n")
    assert (read.stdout.split(), read.stderr) == ([str(number) for number in range(len(IDS))], "")
    for name in ("x", "../x", "%2e", "%zz", "y" * 255, "%sha256-"):
        assert mounted.run(f"cat '.kafkafs/groups/{name}'").returncode == 1
    assert mounted.run("grep -rlw ok .kafkafs/groups").stdout.split() == [".kafkafs/groups/ok"]
    assert mounted.run("cat .kafkafs/transactions").returncode == 0
