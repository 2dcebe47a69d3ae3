"""Backups of a live broker under load: each run verifies, is a prefix of every log, and a broker starts on it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from broker_load import COMPACTED, GROUP, RETAINED, SETTINGS, LoadedBroker
from click.testing import CliRunner
from real_brokers import releases
from revived_stores import all_records, group_offsets, revived, revived_broker, stored_records
from waiting import PATIENCE_S_MAX, until

import kafkafs
from kafkafs.backup import Backup, RunCheck
from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.log.view import Isolation
from storage.store import Mode, Store
from storage.verify import Severity, Verification

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_brokers import Broker, RealKafka

    from kafkafs.backup import RunReport

SECONDS = int(os.environ.get("KAFKAFS_BACKUP_SECONDS", "0"))
"""For how long runs are made at least; `scripts/prove backup` sets it."""

RUNS_MIN = 4
KEEPING = {"log.initial.task.delay.ms": "3600000", "log.cleaner.enable": "false"}
"""The settings of a broker that shortens no log while it is read."""


class BackedUpBroker:
    """The log dirs of a broker, what was produced to it, and the runs that were made of them under that load."""

    def __init__(self, version: str, load: LoadedBroker, log_dirs: list[Path], dest: Path) -> None:
        self.version = version
        self.load = load
        self.log_dirs = log_dirs
        self.dest = dest
        self.reports: list[RunReport] = []

    def back_up(self) -> RunReport:
        """Make a run."""
        return Backup(Files(), Clock(), self.log_dirs, self.dest, broker_settings={}).run(lambda _: None)

    def has_seen_all(self) -> bool:
        """Make a run; true once one has shared files, and one is of logs that retention and the cleaner shortened."""
        report = self.back_up()
        self.reports.append(report)
        if len(self.reports) < RUNS_MIN or not any(each.linked_bytes for each in self.reports):
            return False
        with kafkafs.open(report.path, isolation="read_uncommitted") as run:
            retained, compacted = run[RETAINED][0], run[COMPACTED][0]
            records = sum(1 for _ in compacted.records())
            return retained.start_offset > 0 and records < compacted.end_offset - compacted.start_offset

    def has_all(self) -> bool:
        """Make a run; true once it has all that was acknowledged."""
        report = self.back_up()
        return not report.beyond and self.load.is_all_in(report.path)


@pytest.fixture(scope="module", params=releases("3.9"))
def backed_up(
    real_kafka: RealKafka, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BackedUpBroker]:
    place = tmp_path_factory.mktemp("backed-up")
    settings = {**SETTINGS, "log.dirs": f"{place}/d1,{place}/d2"}
    with real_kafka.broker(place / "broker", settings, version=request.param) as broker:
        load = LoadedBroker(broker.bootstrap)
        load.create_topics()
        made = BackedUpBroker(request.param, load, broker.log_dirs, place / "backups")
        with load.running():
            end_s = time.monotonic() + SECONDS
            said = "no run shares a file, or none is of logs that were retained and compacted"
            until(made.has_seen_all, said, seconds=3 * PATIENCE_S_MAX)
            while time.monotonic() < end_s:
                made.reports.append(made.back_up())
        yield made


def committed(run: Path) -> dict[tuple[str, int], tuple[int, int]]:
    """Return what the group has committed in a run, and the ends of these partitions."""
    result = CliRunner().invoke(main, ["groups", str(run), GROUP, "--json"])
    rows = json.loads(result.stdout) if result.exit_code == 0 else []
    return {(row["topic"], row["partition"]): (row["committedOffset"], row["endOffset"]) for row in rows}


def test_runs_are_prefixes_and_their_groups_point_into_them(backed_up: BackedUpBroker) -> None:
    assert backed_up.load.aborted
    for report in backed_up.reports:
        assert report.failures == []
        assert report.damage == []
        findings = Verification(Files(), [report.path]).run(lambda: None)
        assert [each for each in findings if each.severity is not Severity.NOTICE] == []
        assert [*RunCheck(Files(), report.path).findings(lambda: None)] == []
        backed_up.load.check_prefix(report.path)
        beyond = {(each.topic, each.partition) for each in report.beyond}
        assert beyond == {place for place, (offset, end) in committed(report.path).items() if offset > end}
    until(backed_up.has_all, "no run has all that was acknowledged")
    last = backed_up.back_up()
    backed_up.load.check_prefix(last.path)
    assert (backed_up.dest / "latest").resolve() == last.path


def check_served(broker: Broker, run: Path) -> None:
    """Assert that a broker serves the records of a run, and the offsets of its group."""
    stored = stored_records([run])
    assert sum(map(len, stored.values())) > 0
    assert all_records(broker.bootstrap, Isolation.UNCOMMITTED) == stored
    served = all_records(broker.bootstrap, Isolation.COMMITTED)
    for place, records in stored_records([run], Isolation.COMMITTED).items():
        assert served[place][: len(records)] == records  # it may have ended a transaction that was open
    offsets = {place: offset for place, (offset, _) in committed(run).items()}
    assert offsets
    assert asyncio.run(group_offsets(broker.bootstrap, GROUP)) == offsets


def has_taken_over(broker: Broker) -> bool:
    """Tell whether each partition is assigned to the only log directory that the broker has now.

    Partitions of its other log directory may have no leader from then on to its next start: the controller judges the
    change by the directory that they are assigned to before it, which is offline.
    """
    with Store.open(broker.log_dirs, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        properties, log = store.log_dirs[0].properties, store.cluster.log()
        assert properties is not None
        node_id = properties.node_id
        assert node_id is not None
        assert log is not None
        assigned = log.ask(lambda image: image.assigned_to(node_id))
    return set(assigned.values()) == {properties.directory_id}


def test_a_broker_of_the_same_cluster_starts_on_a_copy_of_a_run(
    backed_up: BackedUpBroker, real_kafka: RealKafka, tmp_path: Path
) -> None:
    run = backed_up.reports[-1].path
    shutil.copytree(run, tmp_path / "logs", ignore=shutil.ignore_patterns("kafkafs-backup.jsonl"))
    settings = {**SETTINGS, **KEEPING}
    with real_kafka.broker(tmp_path, settings, version=backed_up.version) as broker:
        until(lambda: has_taken_over(broker), "the broker has not told where the other log dir's partitions are")
        broker.stop()
    with real_kafka.broker(tmp_path, settings, version=backed_up.version) as broker:
        check_served(broker, run)


def test_a_run_is_revived_as_a_new_cluster(backed_up: BackedUpBroker, real_kafka: RealKafka, tmp_path: Path) -> None:
    run = backed_up.reports[-1].path
    folder = revived(tmp_path / "node", [run])
    with revived_broker(real_kafka, folder, version=backed_up.version) as broker:
        check_served(broker, run)
