"""A real broker's recovery of logs that were damaged on purpose, and ours.

All files come out equal but for these: a broker that has recovered a log leads it, and notes the epoch that begins at
its end; and a quorum's own log is appended to at once.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.config import TopicConfig
from storage.files import Files, OverlayDirectory
from storage.log.epochs import EPOCHS_NAME
from storage.log.recover.recovery import recover_log
from storage.log.recover.report import RecoveryReport, Repair
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.segment.checked_scan import CheckedScan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from storage.files import Directory
    from storage.record import Record

    Recover: TypeAlias = Callable[[Directory], RecoveryReport]

pytestmark = pytest.mark.golden

FILES = Files()
NEVER_MS = 2**62
BESIDE = {Repair.REBUILT, Repair.TRIMMED, Repair.ADDED}

# The result of each damage of DAMAGE.txt: the steps on logs and left-over files, and the lost bytes.
EXPECTED = {
    "t-none-0": ([Repair.CUT], 432),
    "t-gzip-0": ([Repair.CUT], 97),
    "t-snappy-0": ([Repair.CUT], 4096),
    "t-lz4-0": ([Repair.CUT], 2323),
    "t-zstd-0": ([Repair.CUT], 32514),
    "t-mixed-0": ([], 0),
    "t-none-1": ([], 0),
    "t-delrec-0": ([], 0),
    "t-txn-0": ([], 0),
    "t-txn-1": ([Repair.CUT], 67),
    "t-compactdelete-0": ([Repair.REMOVED, Repair.REMOVED], 0),
    "t-timeroll-0": ([Repair.REMOVED, Repair.REMOVED], 0),
    "t-compact-gzip-0": ([Repair.RENAMED], 0),
    "t-v0-0": ([Repair.CUT], 1761),
    "t-v1-0": ([Repair.CUT], 1789),
    "t-upgrade-0": ([Repair.CUT], 9),
    "t-idem-0": ([], 0),
    "t-large-0": ([Repair.CUT], 9),
}


def partitions(broker: Path) -> Iterator[Path]:
    return (path for path in sorted(broker.glob("d*/*-*")) if path.is_dir())


@pytest.fixture
def recover(topic_settings: dict[str, dict[str, str]]) -> Recover:
    return partial(recover_partition, topic_settings)


def recover_partition(settings: dict[str, dict[str, str]], directory: Directory) -> RecoveryReport:
    topic, _, partition = directory.name.rpartition("-")
    starts = read_offsets(FILES.directory(Path(directory).parent), OffsetCheckpoint.LOG_START)
    return recover_log(
        Clock(),
        directory,
        TopicConfig.resolve(settings[topic]),
        is_clean=False,
        start_offset=starts.get((topic, int(partition)), 0),
        producer_expiration_ms=NEVER_MS,
    )


def contents(directory: Directory) -> dict[str, bytes]:
    return {name: directory.read(name) for name in directory.names()}


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    """The files that are other ones, or came or went."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def named(report: RecoveryReport, before: dict[str, bytes]) -> set[str]:
    """The files that the report says have changed."""
    names = {step.name for step in report.steps}
    dropped = {step.name[:20] for step in report.steps if step.repair is Repair.DROPPED}
    renamed = {step.name.removesuffix(".swap") for step in report.steps if step.repair is Repair.RENAMED}
    return names | renamed | {name for name in before if name[:20] in dropped and not name.endswith(".snapshot")}


def epochs_but_the_last(text: bytes) -> list[bytes]:
    return text.splitlines()[2:][:-1]


def test_every_damage_comes_out_as_the_broker_left_it(
    datasets: Callable[[str], Path], recover: Recover, tmp_path: Path
) -> None:
    (root,) = datasets("kafka-3.9-recovery").iterdir()
    shutil.copytree(root / "before", tmp_path / "before")
    found = {}
    for directory in partitions(tmp_path / "before"):
        if directory.name.startswith("__cluster_metadata"):
            continue
        before = contents(FILES.directory(directory))
        report = recover(FILES.directory(directory))
        ours, theirs = (
            contents(FILES.directory(directory)),
            contents(FILES.directory(root / "after" / directory.parent.name / directory.name)),
        )
        assert ours.pop(EPOCHS_NAME).splitlines()[2:] == epochs_but_the_last(theirs.pop(EPOCHS_NAME))
        assert ours == theirs, directory.name
        assert named(report, before) == changed(before, contents(FILES.directory(directory))), directory.name
        repairs = [step.repair for step in report.steps if step.repair not in BESIDE and ".snapshot" not in step.name]
        found[directory.name] = (repairs, report.lost_bytes)
        again = recover(FILES.directory(directory))
        assert (again.steps, again.end_offset) == ([], report.end_offset)
    damages = (root / "before" / "DAMAGE.txt").read_text().splitlines()
    assert {line.partition(":")[0] for line in damages if line.startswith("t-")} == EXPECTED.keys()
    assert found == {**dict.fromkeys(found, ([], 0)), **EXPECTED}


def test_a_quorums_log_keeps_what_the_broker_kept(
    datasets: Callable[[str], Path], recover: Recover, tmp_path: Path
) -> None:
    (root,) = datasets("kafka-3.9-recovery").iterdir()
    name = "__cluster_metadata-0"
    shutil.copytree(root / "before" / "d1", tmp_path / "d1")
    before = contents(FILES.directory(tmp_path / "d1" / name))
    assert recover(FILES.directory(tmp_path / "d1" / name)).lost_bytes == 0
    log = f"{0:020d}.log"
    after = contents(FILES.directory(tmp_path / "d1" / name))
    assert after[log] == before[log]
    assert FILES.read(root / "after" / "d1" / name / log).startswith(after[log])


@pytest.mark.parametrize("part", ["kafka-3.9-killed", "kafka-3.9-recovery"])
def test_a_plan_is_what_is_done(part: str, datasets: Callable[[str], Path], recover: Recover, tmp_path: Path) -> None:
    (root,) = (path for path in datasets(part).iterdir() if not path.name.endswith(".dump"))
    broker = root / "before" if part == "kafka-3.9-recovery" else root
    shutil.copytree(broker, tmp_path / "broker")
    for directory in partitions(tmp_path / "broker"):
        before = contents(FILES.directory(directory))
        overlay = OverlayDirectory(FILES.directory(directory))
        plan = recover(overlay)
        assert contents(FILES.directory(directory)) == before
        planned = contents(overlay)
        report = recover(FILES.directory(directory))
        assert (plan.steps, plan.summary()) == (report.steps, report.summary())
        assert planned == contents(FILES.directory(directory))


def records_of(log: Path) -> list[Record]:
    with FILES.open_reading(log) as file:
        return [record for batch in CheckedScan(file, int(log.stem)) for record in batch.records()]


def test_a_killed_broker_loses_nothing(datasets: Callable[[str], Path], recover: Recover, tmp_path: Path) -> None:
    (killed,) = (path for path in datasets("kafka-3.9-killed").iterdir() if not path.name.endswith(".dump"))
    shutil.copytree(killed, tmp_path / "broker")
    count = 0
    for directory in partitions(tmp_path / "broker"):
        printed = killed.with_name(f"{killed.name}.dump") / directory.parent.name / directory.name
        recover(FILES.directory(directory))
        for text in sorted(printed.glob("*.log.txt")):
            lines = text.read_text(errors="replace").splitlines()
            offsets = [int(line.split()[2]) for line in lines if line.startswith("| offset: ")]
            assert [record.offset for record in records_of(directory / text.stem)] == offsets
            count += len(offsets)
    assert count > 30_000
