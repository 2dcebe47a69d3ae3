"""What `kafkafs recover` says of records that are lost, elsewhere, or on a disk that is not mounted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.failures import EXIT_FAILED, EXIT_FOUND
from kafkafs.cli.recovery_report import outcome_lines
from storage.log.recover.report import RecoveryReport
from storage.store.store_recovery import Recovered

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result


def recover(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["recover", *map(str, arguments)])
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def whole(datasets: Callable[[str], Path], tmp_path: Path) -> str:
    """What a broker left that was stopped: two log directories."""
    root = datasets("kafka-3.9") / "kafka-3.9"
    for name in ("d1", "d2"):
        shutil.copytree(root / name, tmp_path / name)
    return f"{tmp_path / 'd1'},{tmp_path / 'd2'}"


def contents(store: str) -> dict[Path, bytes]:
    paths = (path for part in store.split(",") for path in Path(part).rglob("*"))
    return {path: path.read_bytes() for path in paths if path.is_file() and path.name != ".lock"}


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ((), "only another replica, if there is one, still has them"),
        ((4,), "this is the only replica"),
        ((4, 2), "of the replicas on brokers 2, 4, another one that was in sync has them"),
    ],
)
def test_where_else_the_missing_records_are_is_said_as_far_as_it_is_known(replicas: tuple[int, ...], said: str) -> None:
    report = RecoveryReport()
    report.end_offset = 5
    lines = list(outcome_lines(Recovered("t", 0, Path("/a/t-0"), 9, report, None, replicas), is_plan=True))
    assert lines == ["/a/t-0: offsets 0 to 4", f"  missing  offsets 5 to 8, below the high watermark; {said}"]


@pytest.mark.parametrize(
    ("start", "end", "high_watermark", "has", "misses"),
    [
        (0, 5, 6, "offsets 0 to 4", "offset 5"),
        (4, 5, 9, "offset 4", "offsets 5 to 8"),
        (5, 5, 9, "no records (the next offset is 5)", "offsets 5 to 8"),
    ],
)
def test_the_last_offset_that_is_named_is_in_the_range(
    start: int, end: int, high_watermark: int, has: str, misses: str
) -> None:
    report = RecoveryReport()
    report.start_offset, report.end_offset = start, end
    recovered = Recovered("t", 0, Path("/a/t-0"), high_watermark, report, None, (4,))
    line, missing = outcome_lines(recovered, is_plan=True)
    assert line == f"/a/t-0: {has}"
    assert missing == f"  missing  {misses}, below the high watermark; this is the only replica"


def test_whole_batches_after_damage_are_told_before_they_are_cut(whole: str) -> None:
    log = Path(whole.partition(",")[0], "t-gzip-0", f"{0:020d}.log")
    with log.open("r+b") as file:
        file.seek(20_000)
        file.write(b"\x99")
    plan = recover(whole, "--ignore-clean-shutdown").stdout.splitlines()
    at = plan.index(f"{log.parent}: offsets 0 to 699")
    assert "  lost     whole batches, too, from offset 750 on" in plan[at : at + 10]
    salvage = "whole batches would be lost; `kafkafs salvage STORE TOPIC/PARTITION DIR` keeps them if it is run before"
    assert plan[-2:] == [salvage, "nothing has changed; --apply does this"]
    done = recover(whole, "--ignore-clean-shutdown", "--apply").stdout.splitlines()
    assert "  lost     whole batches, too, from offset 750 on" in done
    assert salvage not in done


def test_a_disk_that_is_not_mounted_is_said_and_nothing_is_written_there(whole: str) -> None:
    first, second = map(Path, whole.split(","))
    second.rename(second.with_name("real"))
    second.mkdir()
    for arguments in ([], ["--apply"], ["--ignore-clean-shutdown", "--apply"]):
        result = recover(whole, *arguments)
        assert result.exit_code == EXIT_FOUND
        lines = result.stdout.splitlines()
        at = lines.index("  nothing is written to it")
        said = f"{second}: the directory is empty: its disk may not be mounted; 22 partitions of this broker are in no"
        assert lines[at - 1].startswith(f"{said} log directory: Weird.topic_name-0-1-0, __consumer_offsets-1, ")
        assert list(second.iterdir()) == []
    told = json.loads(recover(whole, "--jsonl").stdout.splitlines()[-1])
    assert (told["logDir"], told["isBare"], len(told["missing"])) == (str(second), True, 22)
    for command in (["verify", whole], ["report", whole, "--jsonl"]):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == (EXIT_FOUND if command[0] == "verify" else 0)
        [line] = (line for line in result.stdout.splitlines() if "bare_log_dir" in line)
        assert json.loads(line)["severity"] == "damage"
        assert "t-zstd-1" in json.loads(line)["reason"]
    assert (first / ".kafka_cleanshutdown").exists()


def test_the_marker_is_not_believed_of_a_metadata_log_that_is_damaged(whole: str) -> None:
    log = Path(whole.partition(",")[0], "__cluster_metadata-0", f"{0:020d}.log")
    with log.open("r+b") as file:
        file.seek(6000)
        file.write(b"\x55")
    before = contents(whole)
    for arguments in ([], ["--apply"]):
        result = recover(whole, *arguments)
        assert result.exit_code == EXIT_FAILED
        assert "renames the partitions of all topics made in them to -stray" in result.stdout
        assert result.stdout.splitlines()[-1].endswith(", 1 failed")
        assert contents(whole) == before
