"""The fuzzer: a short run of it finds nothing, and it does find planted faults."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import storage

SCRIPTS = Path(__file__).parents[3] / "scripts"
SUPPORT = Path(__file__).parents[2] / "support"
NOTHING_ELSE = ("--files", "0", "--rows", "0", "--bombs", "0", "--small", "0")

pytestmark = pytest.mark.property

BLINDED = """
from storage.record.batch import RecordBatch
RecordBatch.check_crc = lambda batch: None
"""

UNLIMITED = """
from storage.budget import Budget
Budget.share_bytes = 1 << 40
"""

DYING = """
import os, signal
from collections import Counter
from fuzzing import campaign, inputs

def check(data):
    if data == inputs.batch_input(1, 2).data:
        os._exit(3)
    if data == inputs.batch_input(1, 4).data:
        signal.pause()  # as an endless loop does, it never ends by itself
    return Counter()

campaign.check_batches = check
campaign.HANG_SECONDS = 2
"""


def fuzz(*arguments: str, planted: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer over the storage that this test uses; Python runs what is planted at its every start."""
    places = [str(SCRIPTS), str(SUPPORT), str(Path(storage.__file__).parents[1])]
    if planted is not None:
        places.insert(0, str(planted))
    return subprocess.run(
        [sys.executable, "-P", "-m", "fuzzing", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_short_run_finds_nothing() -> None:
    run = fuzz("--batches", "3000", "--files", "150", "--rows", "75", "--bombs", "30", "--small", "600")
    assert run.returncode == 0, run.stdout + run.stderr
    counts = "3,000 mutated batches, 150 mutated log files, 75 runs of rows, 30 bombs, 600 small files"
    assert run.stdout.startswith(f"seed 1: {counts} in ")
    assert run.stdout.endswith("\n0 findings\n")


def test_an_input_follows_from_its_seed_and_number_alone() -> None:
    inputs = ("batch:7", "file:7", "rows:7", "bomb:7", "small:7")
    first, other, again = (fuzz("--seed", seed, "--only", *inputs).stdout.splitlines() for seed in "121")
    assert first == again
    assert len(set(first)) > 2 * len(inputs)
    assert not {line for line in first if len(line) > 100} & {*other}


def test_a_planted_error_is_found(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLINDED)
    run = fuzz("--batches", "200", *NOTHING_ELSE, planted=tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "a wrong checksum is accepted" in run.stdout
    again = next(line for line in run.stdout.splitlines() if line.startswith("again: scripts/fuzz "))
    alone = fuzz(*again.split()[2:], planted=tmp_path)
    assert alone.returncode == 1
    assert "a wrong checksum is accepted" in alone.stdout


def test_a_bomb_that_goes_off_is_found(tmp_path: Path) -> None:
    """Without the limits of the budget some bomb takes more memory than its bound, or an object is kept."""
    (tmp_path / "sitecustomize.py").write_text(UNLIMITED)
    run = fuzz("--batches", "0", *NOTHING_ELSE[:4], "--bombs", "60", "--small", "0", planted=tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "of a bomb takes too much memory" in run.stdout


def test_a_process_that_dies_or_hangs_is_found_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(DYING)
    run = fuzz("--batches", "6", *NOTHING_ELSE, planted=tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "batch:2: the process dies\nwith exit code 3\n" in run.stdout
    assert "batch:4: an input hangs\n" in run.stdout
    assert run.stdout.endswith("2 findings\n          1  the process dies\n          1  an input hangs\n")
