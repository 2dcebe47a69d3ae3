"""Our dump of indexes and producer snapshots, and what it reports, beside those of the real tool."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from index_dumps import SANITY, blocks, cases, dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SCRIPT = Path(__file__).parents[2] / "scripts" / "kafka"
MODES: dict[str, list[str]] = {"entries": [], "sanity": [SANITY], "comparison": ["--verify-index-only"]}
FILES_MAX = 500  # their names are one argument of the real tool's


def altered(root: Path, directory: Path) -> Iterator[Path]:
    """Copies of a segment whose indexes are wrong in every way that does not kill the real tool."""
    stem = root / "kafka-3.9" / "d1" / "t-none-0" / "00000000000000000000"
    offsets, times = (stem.with_suffix(suffix).read_bytes() for suffix in (".index", ".timeindex"))
    first, second = times[:12], times[12:24]
    wrong = {
        "offsets": (struct.pack(">ii", 98, 0) + offsets[8:], times),
        "order": (offsets, second + first + times[24:]),
        "equal": (offsets, first + first + second),
        "time": (offsets, struct.pack(">q", 5) + times[8:]),
        "beyond": (offsets, times + struct.pack(">qi", 2**62, 2**30)),
        "no offsets": (b"", times),
        "zeros": (offsets[:16] + bytes(800) + offsets[16:], times[:24] + bytes(1200) + times[24:]),
        "nothing but zeros": (bytes(8000), bytes(12000)),
        "nothing": (b"", b""),
    }
    for name, (index, time_index) in wrong.items():
        target = directory / name / stem.name
        target.parent.mkdir()
        target.with_suffix(".log").write_bytes(stem.with_suffix(".log").read_bytes())
        target.with_suffix(".index").write_bytes(index)
        target.with_suffix(".timeindex").write_bytes(time_index)
        yield from (target.with_suffix(suffix) for suffix in (".index", ".timeindex"))


def real_dump(files: Sequence[Path], options: Sequence[str]) -> tuple[str, str]:
    command = [sys.executable, SCRIPT, "dump", "--quick", *files, "--", *options]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("real_kafka")
def test_a_real_tool_prints_and_reports_the_same(datasets: Callable[[str], Path], tmp_path: Path, mode: str) -> None:
    options = MODES[mode]
    files = [] if mode == "sanity" else list(altered(datasets("kafka-3.9"), tmp_path))
    for name in ("kafka-2.2", "kafka-3.9-killed"):
        found = [case for case in cases(datasets(name)) if case.options == ([SANITY] if mode == "sanity" else [])]
        files += [case.path for case in found if not case.is_death]
    for start in range(0, len(files), FILES_MAX):
        some = files[start : start + FILES_MAX]
        output, errors = real_dump(some, options)
        result = dump(*options, *some)
        assert (result.stdout, result.exit_code) == (output, 0)
        assert blocks(result.stderr) == blocks(errors)
