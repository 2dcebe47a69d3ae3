"""`kafkafs recover` as a command: the plan, the repairs, and what is left for a broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.recovered_commit import commit_lines, commit_object
from storage.clock import Clock
from storage.files import Files
from storage.store.checkpoints import OffsetCheckpoint, read_offsets
from storage.store.ledger import Entries, Extent, Intent, Ledger, Transaction
from storage.store.recovering import RecoveredCommit
from storage.store.staging import Staging
from storage.store.store import Store
from storage.store.withdrawal import Withdrawal

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


def test_a_plan_changes_nothing_and_is_what_is_done(damaged: str) -> None:
    before = everything(damaged)
    plan = recover(damaged, "--dry-run")
    assert everything(damaged) == before
    done = recover(damaged)
    assert (plan.exit_code, done.exit_code, plan.stderr, done.stderr) == (0, 0, "", "")
    *planned, summary = plan.stdout.splitlines()
    assert done.stdout.splitlines()[:-1] == planned
    assert summary == "46 partitions: 14 to be repaired, 43097 bytes of logs to be cut"
    assert done.stdout.splitlines()[-1] == "46 partitions: 14 repaired, 43097 bytes of logs cut"
    again = recover(damaged)
    assert again.stdout == "46 partitions: 0 repaired, 0 bytes of logs cut\n"


def test_repairs_and_losses_are_told(damaged: str) -> None:
    lines = recover(damaged).stdout.splitlines()
    at = next(index for index, line in enumerate(lines) if "/t-none-0: " in line)
    assert lines[at : at + 3] == [
        f"{damaged.partition(',')[0]}/t-none-0: offsets 0 to 2110",
        f"  cut      {1450:020d}.log, 432 bytes from position 51981, offset 2110: the last batch is not complete",
        "  missing  offsets 2110 to 2120, which other replicas had as well",
    ]
    at = next(index for index, line in enumerate(lines) if "/t-idem-0: " in line)
    assert lines[at + 1] == "  missing  offsets 0 to 500, which other replicas had as well"


def test_a_recovered_store_counts_as_closed_properly(damaged: str) -> None:
    recover(damaged)
    for path in damaged.split(","):
        assert Path(path, ".kafka_cleanshutdown").exists()
        ends = read_offsets(Files(), path, OffsetCheckpoint.RECOVERY_POINT)
        watermarks = read_offsets(Files(), path, OffsetCheckpoint.HIGH_WATERMARK)
        assert len(ends) > 20
        assert all(watermark <= ends[partition] for partition, watermark in watermarks.items())
    assert watermarks["t-compact", 0] == 3200


def test_each_partition_is_an_object(damaged: str) -> None:
    found = [json.loads(line) for line in recover(damaged, "--json").stdout.splitlines()]
    assert len(found) == 46
    (upgraded,) = (each for each in found if each["topic"] == "t-upgrade")
    assert upgraded == {
        "topic": "t-upgrade",
        "partition": 0,
        "path": f"{damaged.partition(',')[2]}/t-upgrade-0",
        "startOffset": 0,
        "endOffset": 1200,
        "highWatermark": 1200,
        "lostBytes": 9,
        "scannedSegments": 1,
        "scannedBytes": 63223,
        "steps": [
            {
                "repair": "cut",
                "name": f"{0:020d}.log",
                "reason": "the last batch is not complete",
                "lostBytes": 9,
                "position": 63223,
                "offset": 1200,
            }
        ],
    }


def test_a_partition_that_fails_keeps_nobody_from_the_others(damaged: str) -> None:
    first = damaged.partition(",")[0]
    index = Path(f"{first}/t-txn-0/{0:020d}.index")
    index.unlink()
    index.mkdir()
    result = recover(damaged)
    assert result.exit_code == 1
    (failed,) = (line for line in result.stdout.splitlines() if "failed: " in line)
    assert failed.startswith(f"{first}/t-txn-0: failed: ")
    assert "Is a directory" in failed
    assert result.stdout.endswith("14 repaired, 43097 bytes of logs cut, 1 failed\n")
    assert not Path(first, ".kafka_cleanshutdown").exists()
    assert Path(damaged.partition(",")[2], ".kafka_cleanshutdown").exists()


def test_an_open_store_is_left_alone_but_can_be_looked_at(damaged: str) -> None:
    lock = f"{damaged.partition(',')[0]}/.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        before = everything(damaged)
        result = recover(damaged)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "has the store open for writing" in result.stderr
        plan = recover(damaged, "--dry-run")
        assert plan.exit_code == 0
        assert plan.stderr == "kafkafs: the store is open elsewhere and changes; this is a look at it as it is now\n"
        assert everything(damaged) == before
    finally:
        holder.communicate(b"\n")


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    for option in ((), ("--dry-run",)):
        result = recover(tmp_path, *option)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"kafkafs: there is neither a meta.properties nor a partition in it ({tmp_path})\n"


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
    intent = Intent(Transaction("app", 3), (staged.name,), {("t", 0): Extent(topic_id, 0, 1)})
    Ledger(Files(), [path]).replace(Entries().with_pending(intent))
    return path, path / staged.name


def test_a_commit_is_completed(interrupted: tuple[Path, Path]) -> None:
    store, _ = interrupted
    before = everything(str(store))
    plan = recover(store, "--dry-run", "--withdraw-commit")
    assert everything(str(store)) == before
    assert plan.stdout.splitlines()[0] == "the commit of app, 3: to be completed"
    done = recover(store)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "the commit of app, 3: completed")
    assert "the commit" not in recover(store).stdout


def test_a_commit_that_cannot_be_completed_is_withdrawn(interrupted: tuple[Path, Path]) -> None:
    store, staged = interrupted
    staged.unlink()
    reason = (
        "a staged file is gone; a commit that was interrupted cannot be completed without it; put it back as it was, "
        f"or have `kafkafs recover STORE --withdraw-commit` take the commit back, and repeat the job ({staged})"
    )
    for arguments in (["--dry-run"], []):
        failed = recover(store, *arguments)
        assert (failed.exit_code, failed.stdout.splitlines()[0]) == (1, f"the commit of app, 3: failed: {reason}")
    failed = json.loads(recover(store, "--json").stdout.splitlines()[-1])
    said = {"application": "app", "version": 3, "staged": [staged.name]}
    assert failed == {**said, "result": "failed", "error": reason}
    plan = recover(store, "--dry-run", "--withdraw-commit")
    assert (plan.exit_code, plan.stdout.splitlines()[0]) == (0, "the commit of app, 3: to be withdrawn")
    done = json.loads(recover(store, "--withdraw-commit", "--json").stdout.splitlines()[-1])
    assert done == {**said, "result": "withdrawn", "partitions": []}
    assert "the commit" not in recover(store).stdout


def test_what_is_cut_and_what_stays_of_a_commit_is_told() -> None:
    intent = Intent(None, ("x",), {})
    withdrawn = [Withdrawal(("t", 0), 4, 9, is_kept=False), Withdrawal(("t", 1), 0, 2, is_kept=True)]
    found = RecoveredCommit(intent, withdrawn, None)
    assert list(commit_lines(found, is_plan=False)) == [
        "the commit: withdrawn",
        "  cut      t-0, offsets 4 to 9",
        "  kept     t-1, offsets 0 to 2: others' records are there, too",
    ]
    assert commit_object(found)["partitions"] == [
        {"topic": "t", "partition": 0, "startOffset": 4, "endOffset": 9, "kept": False},
        {"topic": "t", "partition": 1, "startOffset": 0, "endOffset": 2, "kept": True},
    ]
