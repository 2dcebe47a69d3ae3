"""A real broker adopts a partition that shells filled through a mount, whether or not the mount was ended cleanly."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from shell_writers import WAYS, check_lines, shell_writers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted
    from real_brokers import RealKafka

pytestmark = pytest.mark.e2e

LINES = 10_000 if os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove" else 500
SEGMENT_BYTES = 64 * 1024


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_a_broker_adopts_what_shells_wrote(
    store_mounts: Callable[..., Mounted], real_kafka: RealKafka, tmp_path: Path, end: signal.Signals, codec: str
) -> None:
    mounted = store_mounts(tmp_path / "store")
    settings = {"segment.bytes": str(SEGMENT_BYTES), "compression.type": codec}
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    assert mounted.run(f"mkdir orders && printf '{lines}' >> orders/config").returncode == 0
    writers = shell_writers(tmp_path, mounted.path, "orders/0/append", lines=LINES)
    acknowledged = [writer.finish() for writer in writers]
    mounted.end(end)
    partition = tmp_path / "store" / "orders-0"
    assert len(list(partition.glob("*.log"))) > 2

    judged = real_kafka.judge(partition, settings=settings, clean=end is signal.SIGTERM)

    values = b"".join(record.value + b"\n" for record in judged.read_committed if record.value is not None)
    assert check_lines(values, acknowledged) == len(WAYS) * LINES
    assert [record.offset for record in judged.read_committed] == list(range(len(WAYS) * LINES))
    assert (judged.log_start_offset, judged.end_offset) == (0, len(WAYS) * LINES)
    assert judged.read_uncommitted == judged.read_committed
    assert not [line for line in judged.broker_log if " ERROR " in line]
