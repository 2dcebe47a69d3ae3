"""Shells that append in parallel: every acknowledged line is there once, whole and in its writer's order.

KAFKAFS_HYPOTHESIS_PROFILE=prove has each of the eight write ten thousand lines.
"""

from __future__ import annotations

import os
import random
import signal
from typing import TYPE_CHECKING

import pytest
from shell_writers import WAYS, check_lines, shell_writers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

IS_PROOF = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
LINES = 10_000 if IS_PROOF else 1_000
SEGMENT_BYTES = 64 * 1024
READ_TIME_S_MAX = 120
KILLED_AT = (0.1, 0.35, 0.8)
"""Parts of what is to be written that are there when the mount's process is killed."""


def end_offset(mounted: Mounted) -> int:
    info = (mounted.path / "orders/0/info").read_text().splitlines()
    return int(dict(line.split("=", 1) for line in info)["end.offset"])


def values(mounted: Mounted) -> bytes:
    done = mounted.run_bytes("cat orders/0/values", timeout_s=READ_TIME_S_MAX)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def make_topic(mounted: Mounted) -> None:
    done = mounted.run(f"mkdir orders && echo segment.bytes={SEGMENT_BYTES} >> orders/config")
    assert (done.returncode, done.stderr) == (0, "")


def test_parallel_writers_lose_nothing(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    mounted = store_mounts(tmp_path / "store")
    make_topic(mounted)
    writers = shell_writers(tmp_path, mounted.path, "orders/0/append", lines=LINES)
    acknowledged = [writer.finish() for writer in writers]
    assert [each.taken for each in acknowledged] == [LINES] * len(WAYS)
    written = values(mounted)
    assert check_lines(written, acknowledged) == len(WAYS) * LINES == end_offset(mounted)
    assert len(list((mounted.path / "orders/0/segments").glob("*.log"))) > len(written) // SEGMENT_BYTES
    assert mounted.end() == 0
    # What is closed is the same when it is opened again.
    assert values(store_mounts(tmp_path / "store")) == written


def test_killing_the_mount_loses_nothing_that_was_acknowledged(
    store_mounts: Callable[..., Mounted], tmp_path: Path
) -> None:
    moments = random.Random(4)
    mounted = store_mounts(tmp_path / "store")
    make_topic(mounted)
    acknowledged = []
    for part in KILLED_AT:
        begun = end_offset(mounted)
        writers = shell_writers(tmp_path, mounted.path, "orders/0/append", lines=LINES, first_number=len(acknowledged))
        threshold = begun + int(part * moments.uniform(0.9, 1.1) * LINES * len(WAYS))
        mounted.until(lambda: end_offset(mounted) >= threshold, seconds=READ_TIME_S_MAX)  # noqa: B023
        mounted.end(signal.SIGKILL)
        acknowledged += [writer.finish() for writer in writers]
        assert any(each.taken < LINES for each in acknowledged[-len(WAYS) :]), "nobody was interrupted"
        mounted = store_mounts(tmp_path / "store")
        assert check_lines(values(mounted), acknowledged) == end_offset(mounted)
    assert sum(each.taken for each in acknowledged) > 0
