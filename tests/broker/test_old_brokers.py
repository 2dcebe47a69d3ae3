"""Stores of brokers of 0.8, 0.10, 1.1 and 2.8: sound in every state, read and dumped as they are, recovered as theirs.

What a broker of each series writes is kept as it was when the broker was killed, and as it was after the next start had
recovered it and a clean stop.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from old_brokers import API_VERSIONS, COMPACTED, CONVERTED, PLAIN, OldBroker
from real_brokers import PROVES
from revived_stores import all_records, fingerprint, revived, revived_broker, stored_records

from kafkafs.cli import main
from storage.files import Files
from storage.log.view import Isolation
from storage.segment.scan import LogScan
from storage.verify.finding import FindingKind, Severity
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result
    from real_brokers import RealKafka

    from storage.verify.finding import Finding

SCRIPT = Path(__file__).parents[2] / "scripts" / "kafka"
CHECKED = (".log", ".index", ".timeindex", ".snapshot")
REVIVED = list(API_VERSIONS) if PROVES else ["0.10.2"]
HAS_FIRST_OFFSETS = {"0.8.2", "0.10.2", "1.1"}


@dataclass
class OldStore:
    """A series' store in two states, and what was found in it in each state that it went through."""

    series: str
    sent: dict[tuple[str, int], list[bytes]]
    killed: Path
    stopped: Path
    found: dict[str, list[Finding]]


def findings(log_dir: Path) -> list[Finding]:
    return list(Verification(Files(), [log_dir]).run(lambda: None))


@pytest.fixture(scope="module", params=API_VERSIONS)
def store(
    request: pytest.FixtureRequest, real_kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OldStore]:
    real_kafka.fetch(request.param)
    old = OldBroker(real_kafka, tmp_path_factory.mktemp(f"broker-{request.param}"), request.param)
    found = {}
    with old.running() as broker:
        old.fill(broker)
        found["live"] = findings(old.log_dir)
        broker.kill()
        # As a broker leaves them in its first half minute, so that the next start reads every segment.
        for points in old.log_dir.glob("recovery-point-offset-checkpoint"):
            points.write_text("0\n0\n")
        found["killed"] = findings(old.log_dir)
        killed = old.copy("killed")
    with old.running() as broker:
        found["live again"] = findings(old.log_dir)
        broker.stop()
        found["stopped"] = findings(old.log_dir)
    yield OldStore(request.param, old.sent, killed, old.log_dir, found)
    shutil.rmtree(old.directory)


def test_the_store_is_sound_in_every_state(store: OldStore) -> None:
    assert list(store.found) == ["live", "killed", "live again", "stopped"]
    for state, found in store.found.items():
        assert [finding for finding in found if finding.severity is not Severity.NOTICE] == [], state
    kinds = {finding.kind for found in store.found.values() for finding in found}
    assert (FindingKind.INDEX_ENTRY in kinds) is (store.series in HAS_FIRST_OFFSETS)
    assert (FindingKind.MISSING_INDEX in kinds) is (store.series == "0.8.2")
    # Those of the converted topic, which 0.8 does not have; later brokers index what is stored.
    assert (FindingKind.TIME_INDEX_ENTRY in kinds) is (store.series == "0.10.2")
    result = kafkafs("verify", store.stopped)
    assert (result.exit_code, result.stderr.startswith("sound: ")) == (0, True)


def test_every_record_is_read(store: OldStore) -> None:
    for (topic, partition), values in store.sent.items():
        printed = kafkafs("cat", store.stopped, f"{topic}/{partition}/values").stdout_bytes
        if topic == COMPACTED:
            assert 0 < len(printed) < len(b"\n".join(values))
            assert printed.endswith(values[-1] + b"\n")
        else:
            assert printed == b"".join(value + b"\n" for value in values), (topic, partition)
    assert {topic for topic, _ in store.sent} == {PLAIN, COMPACTED} | (
        {CONVERTED} if store.series != "0.8.2" else set()
    )


def test_dumps_are_the_real_tools(store: OldStore) -> None:
    files = [path for path in sorted(store.stopped.glob("*/*")) if path.suffix in CHECKED and path.stat().st_size]
    assert len(files) >= 12
    command = [sys.executable, SCRIPT, "dump", "--quick", *files]
    real = subprocess.run(command, capture_output=True, check=False)
    assert real.returncode == 0, real.stderr
    ours = kafkafs("dump", *files)
    assert ours.stdout_bytes == real.stdout
    assert ours.exit_code == 0


def test_recovering_leaves_what_the_broker_leaves(store: OldStore, tmp_path: Path) -> None:
    """Byte for byte, but for what present brokers write otherwise."""
    ours = tmp_path / "recovered"
    shutil.copytree(store.killed, ours)
    applied = [option for option in ["--apply"] if option in kafkafs("recover", "--help").stdout]
    assert kafkafs("recover", *applied, ours).exit_code == 0
    assert [finding for finding in findings(ours) if finding.severity is not Severity.NOTICE] == []
    names = {path.relative_to(store.stopped) for path in store.stopped.glob("*/*") if path.suffix in CHECKED}
    names = {name for name in names if not str(name).startswith(COMPACTED)}  # which the broker has cleaned since
    assert {name.suffix for name in names} >= ({".log", ".index"} if store.series == "0.8.2" else {".timeindex"})
    for name in sorted(names):
        theirs = (store.stopped / name).read_bytes()
        if theirs == (ours / name).read_bytes():
            continue
        assert name.suffix != ".log"
        assert store.series in HAS_FIRST_OFFSETS, name
        if name.suffix == ".index":  # the same entries, with last offsets
            begun = starts(ours / name.with_suffix(".log"))
            assert positions(theirs) == positions((ours / name).read_bytes()), indexed(store, name, begun)
            assert begun >= set(positions(theirs)), indexed(store, name, begun)
        else:  # the last batch's time in place of its marker's
            assert (name.suffix, store.series) == (".snapshot", "1.1")


@pytest.mark.parametrize("store", REVIVED, indirect=True)
def test_a_present_broker_starts_on_what_is_revived(store: OldStore, real_kafka: RealKafka, tmp_path: Path) -> None:
    before = fingerprint([store.killed])
    folder = revived(tmp_path / "node", [store.killed])
    assert fingerprint([store.killed]) == before
    with revived_broker(real_kafka, folder, version="4") as broker:
        served = all_records(broker.bootstrap, Isolation.UNCOMMITTED)
    assert served == stored_records([store.killed])
    for place, values in store.sent.items():
        if place[0] != COMPACTED:
            assert [value for *_, value, _ in served[place]] == values


def positions(index: bytes) -> list[int]:
    return [int.from_bytes(index[at + 4 : at + 8], "big") for at in range(0, len(index), 8)]


def indexed(store: OldStore, name: Path, begun: set[int]) -> str:
    """Say of what the broker made an index again."""
    found = store.killed / name
    killed = [each for each in positions(found.read_bytes()) if each] if found.exists() else "none"
    return f"{name} when the broker was killed: {killed}; batches begin at {sorted(begun)}"


def starts(log: Path) -> set[int]:
    with Files().open_reading(str(log)) as file:
        return {batch.position for batch in LogScan(file)}


def kafkafs(*arguments: object) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert "Traceback" not in result.stderr
    return result
