"""A mount has as many descriptors as it may have, and writes to more partitions than those suffice for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mounts import require_fuse, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mounts import Mounted

pytestmark = pytest.mark.e2e

PARTITIONS = 400
HARD_LIMIT = 300


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    """Mount a new store in a process that may have few descriptors, and would have fewer without asking."""
    require_fuse()
    command = f'ulimit -Sn 200; ulimit -Hn {HARD_LIMIT}; exec "$@"'
    options = ["--foreground", "-o", f"default_partitions={PARTITIONS}"]
    kafkafs = [sys.executable, "-P", "-m", "kafkafs", "mount", *options, tmp_path / "store", tmp_path / "mnt"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    mounted = serving(["bash", "-c", command, "bash", *kafkafs], tmp_path / "mnt", environment)
    yield mounted
    mounted.remove()


def test_every_partition_is_written_with_few_descriptors(mounted: Mounted, tmp_path: Path) -> None:
    limits = Path("/proc", str(mounted.process.pid), "limits").read_text()
    assert [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files")] == [
        [str(HARD_LIMIT), str(HARD_LIMIT)]
    ]
    script = f"""
set -e
mkdir orders
echo segment.index.bytes=120 >> orders/config
exec 3<>orders/0/append
for round in 1 2; do
  echo held >&3
  for ((i = 0; i < {PARTITIONS}; i++)); do echo $round:$i >> orders/$i/append; done
done
cat <&3
cat orders/0/values orders/1/values orders/399/values
cat orders/*/values | sort | uniq -c | awk '{{print $1}}' | sort | uniq -c
"""
    done = mounted.run(script, timeout_s=120)
    assert (done.returncode, done.stderr) == (0, "")
    receipts, first, second, last, counts = (
        done.stdout.split("\n")[:2],
        done.stdout.split("\n")[2:6],
        done.stdout.split("\n")[6:8],
        done.stdout.split("\n")[8:10],
        done.stdout.split("\n")[10:-1],
    )
    assert receipts == ["0..0", "2..2"]
    assert first == ["held", "1:0", "held", "2:0"]
    assert (second, last) == (["1:1", "2:1"], ["1:399", "2:399"])
    assert [line.split() for line in counts] == [[str(2 * PARTITIONS), "1"], ["1", "2"]]
    assert "Too many open files" not in mounted.said()
    assert mounted.end() == 0
    verify = [sys.executable, "-P", "-m", "kafkafs", "verify", str(tmp_path / "store")]
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 0
    assert (tmp_path / "store" / ".kafka_cleanshutdown").exists()
