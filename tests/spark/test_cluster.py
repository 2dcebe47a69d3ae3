"""A real cluster of a master and two workers: if any process dies at any point, no record is lost or doubled.

Neither is it where workers do not see the store: what they did not see is not said.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from cluster_drivers import Drivers, environment
from group_stores import commit
from held_processes import Rules
from spark_clusters import HOSTS, can_hide, spark_cluster
from waiting import until

from kafkafs.cli import main
from storage.clock import Clock
from storage.commit.ledger import Ledger
from storage.files import Files
from storage.internal import offsets
from storage.record.encoding import batches_of_rows
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster_drivers import Driver

pq = pytest.importorskip("pyarrow.parquet")

IS_PROOF = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
ROWS = 900
LARGE, LARGE_BYTES = 45, 900_000
"""As many records of this size in a partition are the work of a task of its own."""
LEDGER = r"os\.rename .*/kafkafs-commits\.json$"
STAGED = r"/kafkafs-staged-[0-9a-f]+$"
BLIND = {"all": HOSTS, "one": HOSTS[1:]}
"""The hosts whose workers see nothing of the directory of this name."""


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make a directory that no worker sees, and one that one of the two does not."""
    root = tmp_path_factory.mktemp("unseen")
    made = {name: root / name for name in BLIND}
    for path in made.values():
        path.mkdir()
    return made


@pytest.fixture(scope="module")
def drivers(
    spark_settings: dict[str, str], unseen: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Drivers]:
    root = tmp_path_factory.mktemp("cluster")
    hidden = {host: [unseen[name] for name in BLIND if host in BLIND[name]] for host in HOSTS} if can_hide() else {}
    rules = Rules(root / "rules")
    events = root / "events"
    events.mkdir()
    with spark_cluster(root / "cluster", environment(rules), hidden) as cluster:
        yield Drivers(cluster, rules, spark_settings, events)


@pytest.fixture(scope="module")
def driver(drivers: Drivers) -> Iterator[Driver]:
    with drivers.started() as found:
        yield found


def made_store(path: Path) -> Path:
    with Store.create([path], files=Files(), clock=Clock()) as made:
        made.topics.create("t", 3, {"segment.bytes": "16384", "index.interval.bytes": "1024"})
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return made_store(tmp_path / "store")


def values(path: Path, mode: Mode = Mode.READ_ONLY) -> list[str]:
    """The values of all records; offsets have no gaps."""
    found = []
    with Store.open([path], mode=mode, files=Files(), clock=Clock()) as opened:
        for partition in sorted(opened.topics.inventory.partitions()):
            view = opened.log(*partition).view
            records = [record for batch in view.batches(0) for record in batch.records()]
            assert [record.offset for record in records] == list(range(view.end_offset))
            found += [record.value.decode().rstrip(".") for record in records]
    return sorted(found)


def written(*versions: int) -> list[str]:
    return sorted(f"{version}-{number}" for version in versions for number in range(ROWS))


def staged(path: Path) -> list[str]:
    return [each.name for each in path.iterdir() if each.name.startswith("kafkafs-staged")]


# A driver dies

POINTS = {
    "undecided": [LEDGER],
    "decided": [LEDGER, rf"open .*{STAGED}"],
    "half": [LEDGER, r"open .*/t-1/\d+\.log$"],
    "applied": [LEDGER, LEDGER],
    "told": [LEDGER, LEDGER, rf"os\.remove .*{STAGED}"],
}
"""What a driver does up to where it is killed, before the last of it."""


@pytest.fixture(scope="module")
def left_behind(drivers: Drivers, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make a store for each of the points, with what a driver left of its first commit that was killed there."""
    root = tmp_path_factory.mktemp("left")
    stores = {point: made_store(root / point) for point in POINTS}
    with drivers.started() as driver:
        for point, path in stores.items():
            here, *others = POINTS[point]
            drivers.rules.hold(point, here.replace(".*/", f"{path}/", 1), *others)
            driver.begin("write", store=str(path), rows=ROWS, version=1)
        for point, path in stores.items():
            drivers.rules.taken(point)
            assert values(path) == (written(1) if point == "told" else [])
        driver.kill()
    return stores


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_was_killed_leaves_all_or_nothing(
    point: str, left_behind: dict[str, Path], driver: Driver
) -> None:
    path = left_behind[point]
    ledger = Ledger([Files().directory(path)])
    assert (ledger.current.pending is not None) is (point in {"decided", "half", "applied"})
    logs = [sum(log.stat().st_size for log in (path / f"t-{number}").glob("*.log")) for number in range(3)]
    assert [size > 0 for size in logs] == {"half": [True, True, False]}.get(point, [point in {"applied", "told"}] * 3)
    there = written(1) if point == "told" else []
    assert values(path) == there
    assert sum(count for *_, count in driver.run("count", store=str(path), tasks=4)) == len(there)
    if point in {"undecided", "half"}:
        assert values(path, Mode.READ_WRITE) == ([] if point == "undecided" else written(1))
    driver.run("write", store=str(path), rows=ROWS, version=1)
    assert values(path) == written(1)
    driver.run("write", store=str(path), rows=ROWS, version=2)
    assert values(path) == written(1, 2)
    assert ledger.current.pending is None


# Workers do not see the store


@pytest.fixture(scope="module")
def blind(unseen: dict[str, Path]) -> dict[str, Path]:
    """Make stores of 80 MB, with a group in them, that workers do not see."""
    if not can_hide():
        pytest.skip("not run: this user cannot hide a file system from a process")
    path = unseen["one"] / "store"
    with Store.create([path], files=Files(), clock=Clock()) as made:
        made.topics.create("t", 2)
        made.topics.create(offsets.TOPIC, 1)
        commit(made, "group", "t", 0, 1)
        for number in range(2 * LARGE):
            (batch,) = batches_of_rows([(1, b"%d" % number, os.urandom(LARGE_BYTES), ())])
            made.log("t", number % 2).append_as_leader(batch, leader_epoch=0)
    shutil.copytree(path, unseen["all"] / "store")
    return {name: unseen[name] / "store" for name in BLIND}


def is_told(said: dict[str, object], path: Path) -> bool:
    sentence = f"kafkafs: {socket.gethostname()} sees less of the store than the driver saw: {path} is not there"
    return (said["status"], said["stdout"], str(said["stderr"]).startswith(sentence)) == (3, "", True)


@pytest.mark.parametrize(
    "command",
    [
        "verify STORE",
        "stats STORE",
        "lag STORE",
        "diff STORE STORE",
        "export STORE TARGET --incremental --accept-data-loss",
        "compact STORE TARGET",
        "rewrite STORE TARGET",
        "rewrite STORE TARGET --partitions 3",
    ],
)
def test_what_no_worker_sees_is_not_said(command: str, driver: Driver, blind: dict[str, Path], tmp_path: Path) -> None:
    target = tmp_path / "target"
    names = {"STORE": str(blind["all"]), "TARGET": str(target)}
    said = driver.run("command", arguments=["spark", *(names.get(word, word) for word in command.split())])
    assert is_told(said, blind["all"])
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("command", ["verify STORE", "stats STORE", "diff STORE STORE"])
def test_one_worker_that_does_not_see_the_store_is_named(
    command: str, drivers: Drivers, driver: Driver, blind: dict[str, Path]
) -> None:
    """The other worker could do its tasks too, and then it would stay unknown that this one cannot."""
    arguments = ["spark", *command.replace("STORE", str(blind["one"])).split()]
    said = drivers.run_on_both_hosts(driver, blind["one"], "command", arguments=arguments)
    assert is_told(said, blind["one"])


def test_an_export_that_a_worker_did_not_see_is_made_up_for(
    driver: Driver, blind: dict[str, Path], tmp_path: Path
) -> None:
    arguments = ["spark", "export", str(blind["all"]), str(tmp_path / "target"), "--incremental", "--accept-data-loss"]
    assert is_told(driver.run("command", arguments=arguments), blind["all"])
    seen = shutil.copytree(blind["all"], tmp_path / "store")
    done = driver.run("command", arguments=["spark", "export", str(seen), *arguments[3:]])
    assert (done["status"], f"exported {2 * LARGE + 1} records" in done["stderr"]) == (0, True)


def test_a_query_reads_where_the_store_is_seen(drivers: Drivers, driver: Driver, blind: dict[str, Path]) -> None:
    """Spark repeats a task that fails; its log, and this one, have the reason and the host."""
    counted = drivers.run_on_both_hosts(driver, blind["one"], "count", store=str(blind["one"]), tasks=4)
    assert [row for row in counted if row[0] == "t"] == [["t", 0, LARGE], ["t", 1, LARGE]]
    reason = f"than the driver saw: {blind['one']} is not there"
    until(
        lambda: any(reason in failure for failure in drivers.failures(driver)),
        lambda: f"Spark knows of no such failure: {drivers.failures(driver)}",
    )


# A task does not get to its end

FINISHING = rf"open .*{STAGED}", r"open {store}$"
"""The steps of a task up to where all its rows are staged and no other process knows of it."""


def finishing(store: Path) -> list[str]:
    return [pattern.format(store=store) if "{store}" in pattern else pattern for pattern in FINISHING]


def test_a_worker_is_killed(drivers: Drivers, driver: Driver, store: Path) -> None:
    copies = drivers.copies(driver)
    drivers.rules.hold("killed", *finishing(store))
    writing = driver.begin("write", store=str(store), rows=ROWS, version=1)
    with drivers.killed_worker("killed"):
        driver.answer(writing)
        assert values(store) == written(1)
    left = len(staged(store)) - (drivers.copies(driver) - copies)
    assert left <= 1 <= len(staged(store)), "of the task that died; it goes when it is old"
    driver.run("write", store=str(store), rows=ROWS, version=2)
    assert values(store) == written(1, 2)


def test_a_task_fails(drivers: Drivers, driver: Driver, store: Path) -> None:
    copies = drivers.copies(driver)
    drivers.rules.fail("failed", *finishing(store))
    writing = driver.begin("write", store=str(store), rows=ROWS, version=1)
    with drivers.failed_task(driver, "failed"):
        driver.answer(writing)
    assert values(store) == written(1)
    assert len(staged(store)) <= drivers.copies(driver) - copies


def test_a_task_is_so_slow_that_a_copy_runs_elsewhere(drivers: Drivers, driver: Driver, store: Path) -> None:
    drivers.rules.hold("slow", *finishing(store))
    writing = driver.begin("write", store=str(store), rows=ROWS, version=1)
    with drivers.slow_task(driver, "slow"):
        driver.answer(writing)
        assert values(store) == written(1)
    driver.run("write", store=str(store), rows=ROWS, version=2)
    assert values(store) == written(1, 2)


# The same to tasks that read


@pytest.fixture(scope="module")
def filled(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fill a store, and damage one batch in a copy beside it."""
    path = made_store(tmp_path_factory.mktemp("filled") / "sound")
    driver.run("write", store=str(path), rows=ROWS, version=1)
    damaged = path.with_name("damaged")
    shutil.copytree(path, damaged)
    log = sorted((damaged / "t-2").glob("*.log"))[1]
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    return path


MISHAPS = [("count", "killed"), ("verify", "slow"), ("export", "failed")]
MORE = [("verify", "killed"), ("export", "killed"), ("export", "slow")]


@pytest.mark.parametrize(("job", "mishap"), MISHAPS + MORE if IS_PROOF else MISHAPS)
def test_a_job_ends_as_if_nothing_had_happened(
    job: str, mishap: str, drivers: Drivers, driver: Driver, filled: Path, tmp_path: Path
) -> None:
    name, damaged = f"{job}-{mishap}", filled.with_name("damaged")
    store, target = damaged if job == "verify" else filled, tmp_path / "target"
    half_done = rf"^{drivers.cluster.work}/.*: open {store}/t-1/\d+\.log$"
    if mishap == "failed":
        drivers.rules.fail(name, half_done)
    else:
        drivers.rules.hold(name, half_done)
    arguments = {"count": {"tasks": 4}, "verify": {}, "export": {"target": str(target)}}[job]
    running = driver.begin(job, store=str(store), **arguments)
    with drivers.mishap(driver, name, mishap):
        answer = driver.answer(running)
    match job:
        case "count":
            assert answer == [["t", number, ROWS // 3] for number in range(3)]
        case "verify":
            said = CliRunner().invoke(main, ["verify", str(damaged)]).stdout.splitlines()
            alone = [json.loads(line) for line in said if line.startswith("{")]
            assert [{column: found[column] for column in alone[0]} for found in answer] == alone
        case _:
            found = [row["value"].decode().rstrip(".") for row in pq.read_table(target).to_pylist()]
            assert (answer, sorted(found)) == (ROWS, written(1))
