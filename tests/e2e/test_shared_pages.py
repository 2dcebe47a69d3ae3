"""Processes that read a growing file at once: each gets the bytes of the log, and no page that the kernel filled up."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

READERS = 4
READS = 40
APPENDING = "for each in $(seq 2000); do seq -f 'line %g of a burst' 1 40; done | stdbuf -o0 cat >> t/0/append"
READING = "for each in $(seq {reads}); do cat t/0/{view} | tr -dc '\\0' | wc -c; done"
FOLLOWING = "timeout 6 tail -s 0.02 -c +1 -f t/0/values | tr -dc '\\0' | wc -c"


@pytest.fixture
def mounted(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    mounted = store_mounts(tmp_path / "store")
    assert mounted.run("mkdir t; echo first >> t/0/append").stderr == ""
    return mounted


def zeros_read(mounted: Mounted, scripts: list[str]) -> list[int]:
    """Run scripts at once while records are appended, and return the numbers that they print: of zeros."""
    printed: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(mounted.started(APPENDING))
        threads = [
            threading.Thread(target=lambda script=script: printed.append(mounted.run(script).stdout))
            for script in scripts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [int(word) for text in printed for word in text.split()]


@pytest.mark.parametrize("view", ["values", f"segments/{0:020}.log.txt"])
def test_readers_beside_one_another_read_no_zeros(mounted: Mounted, view: str) -> None:
    found = zeros_read(mounted, [READING.format(reads=READS, view=view)] * READERS)
    assert found == [0] * (READERS * READS)


def test_followers_beside_one_another_read_no_zeros(mounted: Mounted) -> None:
    assert zeros_read(mounted, [FOLLOWING] * 8) == [0] * 8
