"""Stores that real brokers left: all damage that was done to one is found, and in none of the others is any."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from storage.clock import Clock
from storage.files import Files
from storage.store import Mode, Store
from storage.verify.at_start import StartAction
from storage.verify.context import LogEnd
from storage.verify.finding import FindingKind, Severity
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.verify.finding import Finding

pytestmark = pytest.mark.golden

RECOVERY = "kafka-3.9-recovery"
AFTER = f"{RECOVERY}/after"
BEFORE = f"{RECOVERY}/before"
SOUND = {
    "kafka-2.2": ("kafka-2.2/d1", "kafka-2.2/d2"),
    "kafka-3.9": ("kafka-3.9/d1", "kafka-3.9/d2"),
    "kafka-3.9-killed": ("kafka-3.9-killed/d1", "kafka-3.9-killed/d2"),
    "kafka-3.9-compaction": ("kafka-3.9-compaction-before", "kafka-3.9-compaction-after"),
    RECOVERY: (f"{AFTER}/d1", f"{AFTER}/d2"),
}


class Damage(NamedTuple):
    """What was done to a partition, and what has to be found."""

    kind: FindingKind
    files: tuple[str, ...]


def names(suffix: str, *offsets: int) -> tuple[str, ...]:
    return tuple(f"{offset:020d}{suffix}" for offset in offsets)


# By DAMAGE.txt. That all snapshots are gone shows at the one that the last segment began with.
DAMAGES = {
    "t-none-0": Damage(FindingKind.TORN_TAIL, names(".log", 1450)),
    "t-gzip-0": Damage(FindingKind.TORN_TAIL, names(".log", 0)),
    "t-snappy-0": Damage(FindingKind.ZERO_TAIL, names(".log", 1700)),
    "t-lz4-0": Damage(FindingKind.CHECKSUM, names(".log", 1400)),
    "t-zstd-0": Damage(FindingKind.CHECKSUM, names(".log", 0)),
    "t-mixed-0": Damage(FindingKind.MISSING_INDEX, names(".index", 0, 1300) + names(".timeindex", 0, 1300)),
    "t-none-1": Damage(FindingKind.INDEX_ENTRY, names(".index", 0)),
    "t-delrec-0": Damage(FindingKind.INDEX_SIZE, names(".index", 750)),
    "t-txn-0": Damage(FindingKind.MISSING_SNAPSHOT, names(".snapshot", 548)),
    "t-txn-1": Damage(FindingKind.TORN_TAIL, names(".log", 548)),
    "t-compactdelete-0": Damage(FindingKind.INTERRUPTED_REPLACEMENT, names(".log.cleaned", 0)),
    "t-timeroll-0": Damage(FindingKind.INTERRUPTED_REPLACEMENT, names(".log.cleaned", 0)),
    "t-compact-gzip-0": Damage(FindingKind.INTERRUPTED_REPLACEMENT, names(".log.swap", 0)),
    "t-v0-0": Damage(FindingKind.TORN_TAIL, names(".log", 1600)),
    "t-v1-0": Damage(FindingKind.CHECKSUM, names(".log", 1650)),
    "t-upgrade-0": Damage(FindingKind.ZERO_TAIL, names(".log", 0)),
    "t-idem-0": Damage(FindingKind.LOST_TAIL, names(".log", 0)),
    "t-large-0": Damage(FindingKind.ZERO_TAIL, names(".log", 8)),
}

OUTLINED = {
    FindingKind.INTERRUPTED_REPLACEMENT,
    FindingKind.LOST_TAIL,
    FindingKind.MISSING_INDEX,
    FindingKind.TORN_TAIL,
    FindingKind.ZERO_TAIL,
}
"""What is found without reading a log."""


def verify(root: Path, directories: tuple[str, ...]) -> tuple[Verification, list[Finding]]:
    verification = Verification(Files(), [root / directory for directory in directories])
    return verification, list(verification.run(lambda: None))


def outline(root: Path, directories: tuple[str, ...]) -> list[Finding]:
    """Return what is found without reading the logs, with the ends that readers find."""
    paths = [root / directory for directory in directories]
    ends = {}
    with Store.open(paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        for partition in store.topics.inventory.partitions():
            view = store.log(*partition).view
            for last in view.segments[-1:]:
                ends[partition] = LogEnd(last.base_offset, view.end_position, view.end_offset)
    numbers: list[int] = []
    findings = list(Verification(Files(), paths).outline(ends, numbers.append))
    assert numbers == list(range(1, len(numbers) + 1))
    return findings


def state_of(root: Path) -> dict[str, tuple[int, int, str]]:
    found = {}
    for path in (root, *sorted(root.rglob("*"))):
        status = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and status.st_size < 2**20 else ""
        found[str(path)] = (status.st_mtime_ns, status.st_ctime_ns, digest)
    return found


@pytest.mark.parametrize("name", SOUND)
def test_what_a_broker_left_is_sound(datasets: Callable[[str], Path], name: str) -> None:
    root = datasets(name)
    before = state_of(root)
    groups = [SOUND[name]] if name != "kafka-3.9-compaction" else [(each,) for each in SOUND[name]]
    for directories in groups:
        verification, findings = verify(root, directories)
        assert {finding.severity for finding in findings} <= {Severity.NOTICE}
        assert {finding.kind for finding in findings} <= {FindingKind.LEFT_OVER}
        assert (len(findings) > 0) is (name == "kafka-3.9-killed" or directories[0].endswith("-after"))
        assert verification.batches > 0
        assert set(outline(root, directories)) == set(findings)
        assert verification.partitions == sum(
            bool(re.search(r"-\d+$", path.name)) for each in directories for path in (root / each).iterdir()
        )
    assert state_of(root) == before


@pytest.fixture(scope="module")
def damaged(datasets: Callable[[str], Path]) -> list[Finding]:
    _, findings = verify(datasets(RECOVERY), (f"{BEFORE}/d1", f"{BEFORE}/d2"))
    return [finding for finding in findings if finding.severity is Severity.DAMAGE]


def test_the_damages_are_those_that_were_done(datasets: Callable[[str], Path], damaged: list[Finding]) -> None:
    listed = (datasets(RECOVERY) / BEFORE / "DAMAGE.txt").read_text()
    assert set(re.findall(r"(?m)^(t-\S+):", listed)) == set(DAMAGES)
    assert len(DAMAGES) == 18
    assert {Path(finding.path).parent.name for finding in damaged} == set(DAMAGES)


def test_names_and_ends_tell_of_damage_without_a_log_being_read(
    datasets: Callable[[str], Path], damaged: list[Finding]
) -> None:
    found = outline(datasets(RECOVERY), (f"{BEFORE}/d1", f"{BEFORE}/d2"))
    told = {finding for finding in damaged if finding.kind in OUTLINED}
    assert {finding.kind for finding in told} == OUTLINED
    assert {finding for finding in found if finding.severity is Severity.DAMAGE} == told


@pytest.mark.parametrize("partition", DAMAGES)
def test_a_damage_is_found(damaged: list[Finding], partition: str) -> None:
    found = [finding for finding in damaged if finding.path.startswith(f"{partition}/")]
    topic, _, number = partition.rpartition("-")
    assert {(finding.topic, finding.partition) for finding in found} == {(topic, int(number))}
    kind, files = DAMAGES[partition]
    assert {finding.path for finding in found if finding.kind is kind} == {f"{partition}/{name}" for name in files}
    consequences = {FindingKind.LOST_TAIL, FindingKind.INDEX_ENTRY, FindingKind.TIME_INDEX_ENTRY}
    assert {finding.kind for finding in found} - consequences <= {kind}


def test_positions_and_offsets_around_the_damages(damaged: list[Finding]) -> None:
    by_partition = {
        finding.path.split("/")[0]: finding
        for finding in damaged
        if finding.kind in {FindingKind.CHECKSUM, FindingKind.TORN_TAIL, FindingKind.ZERO_TAIL}
    }
    places = {
        partition: (each.position, each.end_position, each.last_good_offset, each.next_good_offset)
        for partition, each in by_partition.items()
    }
    assert places == {
        "t-none-0": (51981, 52413, 2109, None),
        "t-gzip-0": (55757, 55854, 1999, None),
        "t-snappy-0": (11616, 15712, 1999, None),
        "t-lz4-0": (26084, 28407, 1949, None),
        "t-zstd-0": (31677, 33132, 1049, 1100),
        "t-txn-1": (6891, 6958, 658, None),
        "t-v0-0": (12922, 14683, 1949, None),
        "t-v1-0": (10590, 12379, 1949, None),
        "t-upgrade-0": (63223, 63232, 1199, None),
        "t-large-0": (3601814, 3601823, 61, None),
    }


def test_what_a_broker_would_do_at_its_start_is_what_one_did(
    datasets: Callable[[str], Path], damaged: list[Finding]
) -> None:
    """`after/` is what a real broker made of the damage."""
    root = datasets(RECOVERY)
    seen: Counter[str | None] = Counter()
    for finding in damaged:
        assert finding.log_dir is not None
        before = Path(finding.log_dir) / finding.path
        after = root / AFTER / before.relative_to(root / BEFORE)
        seen[finding.start_action] += 1
        match finding.start_action:
            case StartAction.TRUNCATE:
                assert finding.position is not None
                assert after.stat().st_size == finding.position, finding
                assert f"at position {finding.position} " in str(finding.at_start)
                if finding.kind is FindingKind.CHECKSUM:
                    assert f"from {finding.offset} " in str(finding.at_start)
            case StartAction.REBUILD if before.suffix in {".index", ".timeindex"}:
                assert after.stat().st_size % (8 if before.suffix == ".index" else 12) == 0
                assert not before.exists() or after.read_bytes() != before.read_bytes()
            case StartAction.REBUILD:
                assert after.exists()
            case StartAction.REMOVE:
                assert not after.exists()
            case _:
                assert (finding.start_action, finding.kind) == (StartAction.NOTHING, FindingKind.LOST_TAIL)
    assert seen.keys() == {StartAction.TRUNCATE, StartAction.REBUILD, StartAction.REMOVE, StartAction.NOTHING}
