"""Snapshots of metadata that a running broker makes: verify finds them sound, and a changed byte in one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from storage.files import Files
from storage.verify.finding import FindingKind, Severity
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from real_brokers import RealKafka


def test_snapshots_of_metadata_are_sound_and_a_changed_byte_is_found(real_kafka: RealKafka, tmp_path: Path) -> None:
    """A node of 4.x that makes them all the time, while it runs and after."""
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": "200",
        "metadata.log.max.snapshot.interval.ms": "1000",
    }
    with real_kafka.broker(tmp_path, settings, version="4") as broker:
        (log_dir,) = broker.log_dirs
        for name in ("orders", "payments"):
            real_kafka.tool("TopicCommand", "--bootstrap-server", broker.bootstrap, "--topic", name, "--create")
        findings = list(Verification(Files(), [log_dir]).run(lambda: None))
        assert {finding.severity for finding in findings} <= {Severity.NOTICE}
    metadata = log_dir / "__cluster_metadata-0"
    snapshots = sorted(metadata.glob("*.checkpoint"))
    assert snapshots
    assert (metadata / "quorum-state").exists()
    findings = list(Verification(Files(), [log_dir]).run(lambda: None))
    assert {finding.severity for finding in findings} <= {Severity.NOTICE}
    data = bytearray(snapshots[-1].read_bytes())
    data[len(data) // 2] ^= 1
    snapshots[-1].write_bytes(data)
    findings = list(Verification(Files(), [log_dir]).run(lambda: None))
    found = [finding for finding in findings if finding.severity is Severity.DAMAGE]
    assert [(finding.kind, Path(finding.path).name) for finding in found] == [
        (FindingKind.CHECKSUM, snapshots[-1].name)
    ]
