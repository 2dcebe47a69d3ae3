"""`kafkafs recover` as a command: the plan, the repairs, and what is left for a broker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.failures import EXIT_FAILED, EXIT_USAGE
from kafkafs.cli.recovery_report import outcome_lines, outcome_object
from storage.clock import Clock
from storage.commit.applied import Transaction
from storage.commit.ledger import Entries, Intent, Ledger, OffsetRange
from storage.commit.withdrawal import Withdrawal
from storage.files import Files
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.store.commit_recovery import RecoveredCommit
from storage.store.staging import Staging
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

HOLD = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"


def recover(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["recover", *map(str, arguments)])
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def damaged(datasets: Callable[[str], Path], tmp_path: Path) -> str:
    """What a broker left, and somebody damaged: two log directories."""
    (root,) = datasets("kafka-3.9-recovery").iterdir()
    for name in ("d1", "d2"):
        shutil.copytree(root / "before" / name, tmp_path / name)
    return f"{tmp_path / 'd1'},{tmp_path / 'd2'}"


def everything(store: str) -> dict[Path, tuple[bytes, int]]:
    paths = [path for part in store.split(",") for path in Path(part).rglob("*")]
    return {path: (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns) for path in paths}


def contents(store: str) -> dict[str, bytes]:
    return {str(path): data for path, (data, _) in everything(store).items() if path.is_file() and path.name != ".lock"}


def changes(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


@pytest.mark.parametrize("option", [(), ("--dry-run",)], ids=["plain", "--dry-run"])
def test_a_plan_changes_nothing_and_is_what_is_done(option: tuple[str, ...], damaged: str) -> None:
    before = everything(damaged)
    plan = recover(damaged, *option)
    assert everything(damaged) == before
    done = recover(damaged, "--apply")
    assert (plan.exit_code, done.exit_code, plan.stderr, done.stderr) == (0, 0, "", "")
    *planned, summary, salvage, hint = plan.stdout.splitlines()
    assert done.stdout.splitlines()[:-1] == planned
    assert summary == "46 partitions: 46 to be repaired, 43097 bytes of logs to be cut"
    assert salvage.startswith("whole batches would be lost; `kafkafs salvage STORE TOPIC/PARTITION DIR` keeps them")
    assert hint == "nothing has changed; --apply does this"
    assert done.stdout.splitlines()[-1] == "46 partitions: 46 repaired, 43097 bytes of logs cut"


def test_each_file_that_changes_is_named(damaged: str) -> None:
    before = contents(damaged)
    planned = [json.loads(line) for line in recover(damaged, "--jsonl").stdout.splitlines()]
    done = [json.loads(line) for line in recover(damaged, "--jsonl", "--apply").stdout.splitlines()]
    assert planned == done
    named = {f"{each.get('path') or each['logDir']}/{step['name']}" for each in done for step in each["steps"]}
    named |= {path.removesuffix(".swap") for path in named}
    assert named == changes(before, contents(damaged))
    repaired = {Path(path).parent for path in changes(before, contents(damaged))} - set(map(Path, damaged.split(",")))
    assert len(repaired) == 46


def test_a_store_that_was_closed_is_not_read_and_stays_as_it_is(damaged: str) -> None:
    recover(damaged, "--apply")
    before = contents(damaged)
    again = recover(damaged, "--apply")
    first, second = damaged.split(",")
    reason = (
        "  the clean-shutdown marker says that all logs here were closed properly, so only the ends of the topics' "
        "logs were read; --ignore-clean-shutdown reads all of them"
    )
    assert again.stdout.splitlines() == [
        f"{first}:",
        reason,
        f"{second}:",
        reason,
        "46 partitions: 0 repaired, 0 bytes of logs cut",
    ]
    assert contents(damaged) == before
    log = Path(first, "t-none-0", f"{0:020d}.log")
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    assert "46 partitions: 0 to be repaired" in recover(damaged).stdout
    assert "46 partitions: 1 to be repaired" in recover(damaged, "--ignore-clean-shutdown").stdout


def test_a_repair_is_finished_although_its_output_is_closed(damaged: str) -> None:
    command = [sys.executable, "-P", "-m", "kafkafs", "recover", damaged, "--apply"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (
        141,
        b"kafkafs: everything was repaired, but standard output: Broken pipe\n",
    )
    assert all(Path(path, ".kafka_cleanshutdown").exists() for path in damaged.split(","))
    assert "46 partitions: 0 repaired" in recover(damaged, "--apply").stdout


def test_the_settings_of_the_broker_say_how_indexes_are_built(damaged: str, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.index.interval.bytes=0\n")
    silent = Path(damaged.partition(",")[0], "__transaction_state-0")
    indexes = [directory / f"{0:020d}.index" for directory in (silent, silent.with_name("t-gzip-0"))]
    sizes = []
    for option in ((), ("--server-properties", properties)):
        for index in indexes:
            index.unlink()
        assert recover(damaged, "--apply", "--ignore-clean-shutdown", *option).exit_code == 0
        sizes.append([index.stat().st_size for index in indexes])
    (silent, own), (silent_told, own_told) = sizes
    assert silent < silent_told
    assert own == own_told  # the metadata log gives this topic an index.interval.bytes of its own


def test_apply_and_dry_run_exclude_each_other(damaged: str) -> None:
    result = recover(damaged, "--apply", "--dry-run")
    assert result.exit_code == 2
    assert "exclude each other" in result.stderr


def test_the_metadata_log_is_not_cut_unasked(damaged: str) -> None:
    first = damaged.partition(",")[0]
    log = Path(first, "__cluster_metadata-0", f"{0:020d}.log")
    data = bytearray(log.read_bytes())
    data[6000] ^= 1
    log.write_bytes(data)
    for option in ((), ("--apply",)):
        result = recover(damaged, *option)
        assert result.exit_code == EXIT_FAILED
        (failed,) = (line for line in result.stdout.splitlines() if "failed: " in line)
        assert failed.startswith(f"{log.parent}: failed: ")
        assert "renames the partitions of all topics made in them to -stray" in failed
        assert log.read_bytes() == data
    assert not Path(first, ".kafka_cleanshutdown").exists()
    assert recover(damaged, "--apply", "--cut-metadata").exit_code == 0
    assert log.stat().st_size < 6000
    assert Path(first, ".kafka_cleanshutdown").exists()


def test_repairs_and_losses_are_told(damaged: str) -> None:
    lines = recover(damaged, "--apply").stdout.splitlines()
    at = next(index for index, line in enumerate(lines) if "/t-none-0: " in line)
    end = next(index for index in range(at + 1, len(lines)) if not lines[index].startswith("  "))
    assert lines[at] == f"{damaged.partition(',')[0]}/t-none-0: offsets 0 to 2109"
    cut = f"  cut      {1450:020d}.log, 432 bytes from position 51981, offset 2110: the last batch is not complete"
    assert cut in lines[at:end]
    only = "below the high watermark; this is the only replica"
    assert lines[end - 1] == f"  missing  offsets 2110 to 2119, {only}"
    assert any(line.startswith(f"  added    {2110:020d}.snapshot: ") for line in lines[at:end])
    assert f"  missing  offsets 0 to 499, {only}" in lines


def test_a_recovered_store_counts_as_closed_properly(damaged: str) -> None:
    recover(damaged, "--apply")
    for path in damaged.split(","):
        assert Path(path, ".kafka_cleanshutdown").exists()
        ends = read_offsets(Files().directory(path), OffsetCheckpoint.RECOVERY_POINT)
        watermarks = read_offsets(Files().directory(path), OffsetCheckpoint.HIGH_WATERMARK)
        assert len(ends) > 20
        assert all(watermark <= ends[partition] for partition, watermark in watermarks.items())
    assert watermarks["t-compact", 0] == 3200


def test_each_partition_is_an_object(damaged: str) -> None:
    found = [json.loads(line) for line in recover(damaged, "--jsonl", "--apply").stdout.splitlines()]
    *found, first, second = found
    assert len(found) == 46
    assert [first["logDir"], second["logDir"]] == damaged.split(",")
    assert (first["trustsMarker"], first["closed"]) == (False, True)
    assert [step["name"] for step in first["steps"]][-1] == ".kafka_cleanshutdown"
    (upgraded,) = (each for each in found if each["topic"] == "t-upgrade")
    steps = upgraded.pop("steps")
    assert upgraded == {
        "topic": "t-upgrade",
        "partition": 0,
        "path": f"{damaged.partition(',')[2]}/t-upgrade-0",
        "startOffset": 0,
        "endOffset": 1200,
        "highWatermark": 1200,
        "replicas": [1],
        "lostBytes": 9,
        "believedSegments": 0,
        "scannedSegments": 1,
        "scannedBytes": 63223,
    }
    assert steps[0] == {
        "repair": "cut",
        "name": f"{0:020d}.log",
        "reason": "the last batch is not complete",
        "lostBytes": 9,
        "position": 63223,
        "offset": 1200,
        "nextGoodOffset": None,
    }
    # With the index.interval.bytes that the metadata log gives the topic, both indexes are as the broker left them.
    assert [step["name"] for step in steps[1:]] == ["leader-epoch-checkpoint"]


def test_a_partition_that_fails_does_not_stop_the_others(damaged: str) -> None:
    first = damaged.partition(",")[0]
    index = Path(f"{first}/t-txn-0/{0:020d}.index")
    index.unlink()
    index.mkdir()
    result = recover(damaged, "--apply")
    assert result.exit_code == EXIT_FAILED
    (failed,) = (line for line in result.stdout.splitlines() if "failed: " in line)
    assert failed.startswith(f"{first}/t-txn-0: failed: ")
    assert "Is a directory" in failed
    assert result.stdout.endswith("45 repaired, 43097 bytes of logs cut, 1 failed\n")
    assert "  no clean-shutdown marker is written: not every log here is recovered" in result.stdout
    assert not Path(first, ".kafka_cleanshutdown").exists()
    assert Path(damaged.partition(",")[2], ".kafka_cleanshutdown").exists()


def test_an_open_store_is_left_alone_but_can_be_looked_at(damaged: str) -> None:
    lock = f"{damaged.partition(',')[0]}/.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        before = everything(damaged)
        result = recover(damaged, "--apply")
        assert (result.exit_code, result.stdout) == (EXIT_FAILED, "")
        assert "has the store open for writing" in result.stderr
        plan = recover(damaged)
        assert plan.exit_code == 0
        assert plan.stderr == "kafkafs: the store is open elsewhere and changes; this is a look at it as it is now\n"
        assert everything(damaged) == before
    finally:
        holder.communicate(b"\n")


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    (tmp_path / "polkit-1").mkdir()
    for option in ((), ("--dry-run",), ("--apply",)):
        result = recover(tmp_path, *option)
        assert (result.exit_code, result.stdout) == (EXIT_USAGE, "")
        assert result.stderr == (
            "kafkafs: this is no store: there is neither a meta.properties nor a partition with a segment in it "
            f"({tmp_path})\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["polkit-1"]


@pytest.fixture
def interrupted(tmp_path: Path) -> tuple[Path, Path]:
    """A store whose driver died as soon as a commit was decided, and what was staged for it."""
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("t", 1)
        topic_id = store.topics.topic_id("t")
        with Staging(store, Clock()) as staging:
            staging.add("t", 0, (Clock().now_ms(), None, b"value", ()))
            staged = staging.finish()
    assert staged is not None
    intent = Intent(Transaction("app", 3), (staged.name,), {("t", 0): OffsetRange(topic_id, 0, 1)})
    Ledger([Files().directory(path)]).replace(Entries().with_pending(intent))
    return path, path / staged.name


def test_a_commit_is_completed(interrupted: tuple[Path, Path]) -> None:
    store, _ = interrupted
    before = everything(str(store))
    plan = recover(store, "--dry-run", "--withdraw-commit")
    assert everything(str(store)) == before
    assert "the commit of app, 3: to be completed" in plan.stdout.splitlines()
    done = recover(store, "--apply")
    assert done.exit_code == 0
    assert "the commit of app, 3: completed" in done.stdout.splitlines()
    assert "the commit" not in recover(store, "--apply").stdout


def test_a_commit_that_cannot_be_completed_is_withdrawn(interrupted: tuple[Path, Path]) -> None:
    store, staged = interrupted
    staged.unlink()
    reason = (
        "a staged file is gone; a commit that was interrupted cannot be completed without it; put it back as it was, "
        f"or have `kafkafs recover STORE --withdraw-commit --apply` take the commit back, and repeat the job ({staged})"
    )
    for arguments in (["--dry-run"], ["--apply"]):
        failed = recover(store, *arguments)
        assert failed.exit_code == EXIT_FAILED
        assert f"the commit of app, 3: failed: {reason}" in failed.stdout.splitlines()
    failed = json.loads(recover(store, "--apply", "--jsonl").stdout.splitlines()[-1])
    said = {"application": "app", "version": 3, "staged": [staged.name]}
    assert failed == {**said, "result": "failed", "error": reason}
    plan = recover(store, "--dry-run", "--withdraw-commit")
    assert plan.exit_code == 0
    assert "the commit of app, 3: to be withdrawn" in plan.stdout.splitlines()
    done = json.loads(recover(store, "--withdraw-commit", "--apply", "--jsonl").stdout.splitlines()[-1])
    assert done == {**said, "result": "withdrawn", "partitions": []}
    assert "the commit" not in recover(store).stdout


def test_what_is_cut_and_what_stays_of_a_commit_is_told() -> None:
    intent = Intent(None, ("x",), {})
    withdrawn = [Withdrawal(("t", 0), 4, 9, is_kept=False), Withdrawal(("t", 1), 0, 2, is_kept=True)]
    withdrawn.append(Withdrawal(("t", 2), 7, 8, is_kept=False))
    found = RecoveredCommit(intent, withdrawn, None)
    assert list(outcome_lines(found, is_plan=False)) == [
        "the commit: withdrawn",
        "  cut      t-0, offsets 4 to 8",
        "  kept     t-1, offsets 0 to 1: others' records are there, too",
        "  cut      t-2, offset 7",
    ]
    assert outcome_object(found)["partitions"] == [
        {"topic": "t", "partition": 0, "startOffset": 4, "endOffset": 9, "kept": False},
        {"topic": "t", "partition": 1, "startOffset": 0, "endOffset": 2, "kept": True},
        {"topic": "t", "partition": 2, "startOffset": 7, "endOffset": 8, "kept": False},
    ]
