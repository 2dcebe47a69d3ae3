"""What a commit takes of a real disk: no more than was foreseen, and little besides the records."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from staged_stores import StagedStore

from storage.clock import Clock
from storage.commit.space import partition_bytes
from storage.commit.staged_file import StagedFile
from storage.errors import DiskFullError
from storage.files import Files
from storage.store.staging import Staging
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from small_disks import SmallDisk

PARTITIONS = 20
MANY = 10_000 if os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove" else 30
OVERHEAD_MEGABYTES = 8  # of the file system itself
PARTITION_BYTES_MAX = 64 * 1024
PARTITION_FILES, OTHER_FILES = 7, 100
SETTINGS = {"num.partitions": str(PARTITIONS), "log.segment.bytes": "4096", "log.index.interval.bytes": "0"}

COMMIT_TO_MANY = """
import resource, sys
from storage.clock import Clock
from storage.files import Files
from storage.store import Mode, Store
from storage.store.staging import Staging
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
given = {"files": Files(), "clock": Clock(), "broker_settings": {"num.partitions": "100"}}
Store.create(sys.argv[1:], files=Files(), clock=Clock()).close()
with Store.open(sys.argv[1:], mode=Mode.READ_ONLY, **given) as store:
    with Staging(store, Clock(), new_topics=True) as staging:
        for partition in range(100):
            staging.add("t", partition, (0, None, b"one", ()))
        staged = staging.finish()
with Store.open(sys.argv[1:], mode=Mode.READ_WRITE, **given) as store:
    assert store.commits.commit([staged.name])
"""


def used_bytes(*roots: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for root in roots for path in [root, *root.rglob("*")])


def opened(paths: list[Path], mode: Mode) -> Store:
    return Store.open(paths, mode=mode, files=Files(), clock=Clock(), broker_settings=SETTINGS)


@pytest.mark.parametrize("value", [b"one", b"many" * 500], ids=["one record", "many segments"])
def test_a_commit_takes_no_more_than_was_foreseen(value: bytes, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    Store.create(paths, files=Files(), clock=Clock()).close()
    with opened(paths, Mode.READ_ONLY) as store, Staging(store, Clock(), new_topics=True) as staging:
        for partition in range(PARTITIONS):
            for _ in range(len(value) // 200 + 1):
                staging.add("t", partition, (0, None, value, ()))
        staged = staging.finish()
    assert staged is not None
    before = used_bytes(*paths)
    with opened(paths, Mode.READ_WRITE) as store:
        file = next(path / staged.name for path in paths if (path / staged.name).exists())
        sizes = {run.partition: run.size_bytes for run in StagedFile(Files().directory(file.parent), file.name).runs}
        foreseen = sum(partition_bytes(size_bytes, store.config.topic()) for size_bytes in sizes.values())
        store.commits.commit([staged.name])
        taken = used_bytes(*paths) - before
    assert staged.size_bytes < taken <= foreseen
    assert used_bytes(*paths) - before - sum(sizes.values()) <= PARTITIONS * PARTITION_BYTES_MAX


def test_a_row_for_each_of_many_partitions_fits_in_64_kib_each(small_disks: Callable[..., SmallDisk]) -> None:
    megabytes = OVERHEAD_MEGABYTES + MANY * PARTITION_BYTES_MAX // (1 << 20)
    disk = small_disks(megabytes=megabytes, files_max=OTHER_FILES + MANY * PARTITION_FILES)
    path = disk.path / "store"
    Store.create([path], files=Files(), clock=Clock()).close()
    many = {"num.partitions": str(MANY)}
    given = {"files": Files(), "clock": Clock(), "broker_settings": many}
    with (
        Store.open([path], mode=Mode.READ_ONLY, **given) as store,
        Staging(store, Clock(), new_topics=True) as staging,
    ):
        for partition in range(MANY):
            staging.add("t", partition, (0, None, b"one", ()))
        staged = staging.finish()
    assert staged is not None
    with Store.open([path], mode=Mode.READ_WRITE, **given) as store:
        assert store.commits.commit([staged.name])
        assert [store.log("t", partition).view.end_offset for partition in (0, MANY - 1)] == [1, 1]


def test_a_commit_to_more_logs_than_may_have_descriptors(tmp_path: Path) -> None:
    """A process of a shell may hold 1,024 descriptors as a rule, and a log takes five."""
    command = [sys.executable, "-P", "-c", COMMIT_TO_MANY, str(tmp_path / "store")]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""
    with Store.open([tmp_path / "store"], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        assert {store.log("t", partition).view.end_offset for partition in range(100)} == {1}


def test_log_directories_on_one_disk_share_its_space() -> None:
    store = StagedStore()
    store.create({"t": 2})
    staged = store.stage([("t", 0, bytes(300)), ("t", 1, bytes(300))])
    with store.open() as found:
        assert found.topics.location("t", 0)[1] != found.topics.location("t", 1)[1]
        needed_bytes = 2 * partition_bytes(staged.size_bytes // 2, found.topics.config("t"))
        store.files.capacity_bytes = store.files._used_bytes(store.files._root) + needed_bytes * 3 // 4
        with pytest.raises(DiskFullError, match="nothing was committed"):
            found.commits.commit([staged.name])
        store.files.capacity_bytes = None
