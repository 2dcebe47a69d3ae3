"""A mount under a mixed load in which readers and writers are killed: it stays up, and grows neither fat nor leaky.

KAFKAFS_SOAK_S says for how many seconds; `scripts/prove mount soak`, which runs it, takes twenty minutes.
KAFKAFS_SOAK_SEED repeats a run's choices.
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import linear_regression, median
from typing import TYPE_CHECKING, Final

import pytest
from mixed_load import MixedLoad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mixed_load import Rest
    from mounts import Mounted

pytestmark = [pytest.mark.e2e, pytest.mark.timed]

LENGTH_S: Final = float(os.environ.get("KAFKAFS_SOAK_S", "1200"))
SEED: Final = int(os.environ.get("KAFKAFS_SOAK_SEED", "20261121"))
RESTS: Final = 12
WARM_RESTS: Final = 4
"""The first third: caches and the allocator find their sizes."""

MEMORY_SPARE_KB: Final = 40 * 1024
"""What may be held at one rest and not at another: 32 MiB of batches, and what the allocator gives back later."""
DESCRIPTORS_SPARE: Final = 12
"""Segments roll while others are deleted, and the active one of each log has three files open."""
STALL_S_MAX: Final = 1.0


def slope_per_hour(rests: Sequence[Rest], values: Sequence[int]) -> float:
    return linear_regression([rest.at_s for rest in rests], values).slope * 3600


def test_memory_and_descriptors_stay_flat(store_mounts: Callable[..., Mounted], tmp_path: Path) -> None:
    mounted = store_mounts(tmp_path / "store", "-o", "allow_delete")
    load = MixedLoad(mounted, SEED)
    load.prepare()
    rests = []
    for _ in range(RESTS):
        load.run(LENGTH_S / RESTS)
        assert mounted.process.poll() is None, mounted.said()
        rests.append(load.rest())
        print(rests[-1]._asdict())
    warm = rests[WARM_RESTS:]
    memory, descriptors = [rest.memory_kb for rest in warm], [rest.descriptors for rest in warm]
    print(
        f"seed {SEED}, {rests[-1].at_s:.0f} s: {load.requests()} requests, {load.begun} commands, {load.killed} killed;"
        f" memory {memory[0]} to {memory[-1]} kB ({slope_per_hour(warm, memory) / 1024:+.1f} MB/h), descriptors"
        f" {descriptors[0]} to {descriptors[-1]} ({slope_per_hour(warm, descriptors):+.1f}/h),"
        f" inodes {warm[0].known_inodes} to {warm[-1].known_inodes}, longest stat {load.longest_look_s * 1000:.0f} ms"
    )
    half = len(warm) // 2
    assert median(memory[half:]) <= median(memory[:half]) + MEMORY_SPARE_KB
    assert max(descriptors) <= min(descriptors) + DESCRIPTORS_SPARE
    assert warm[-1].open_files <= 1
    assert load.killed > 0
    assert load.longest_look_s < STALL_S_MAX
    assert "Traceback" not in mounted.said()
    assert mounted.end() == 0
    verified = subprocess.run(
        [sys.executable, "-P", "-m", "kafkafs", "verify", tmp_path / "store"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
