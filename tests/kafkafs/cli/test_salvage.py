"""`kafkafs salvage` as a command: what it makes, what it says, what it refuses, and how it ends."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


def run(*words: object) -> Result:
    result = CliRunner().invoke(main, list(map(str, words)))
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def values(store: Path, log: str = "orders/0") -> list[str]:
    result = run("cat", store, f"{log}/records.jsonl", "-f", "%o=%s\n")
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def state(store: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in store.rglob("*") if path.is_file()}


def account_of(out: Path, name: str = "orders-0") -> dict[str, Any]:
    return json.loads((out / f"{name}.salvage.json").read_bytes())


def test_both_sides_of_the_damage_come_out(damaged_store: Path, tmp_path: Path) -> None:
    before = state(damaged_store)
    result = run("salvage", damaged_store, "orders/0", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert state(damaged_store) == before
    lines = result.stdout.splitlines()
    revive = f"kafkafs revive {tmp_path}/out --into DEST makes log directories with it for a fresh broker"
    assert lines[0].startswith(f"damaged: {0:020}.log, bytes ")
    assert lines[1:] == [
        "lost: offset 10",
        f"salvaged orders/0 into {tmp_path}/out/orders-0: offsets 0 to 19, 19 batches, 0.0 MB, verified",
        f"next: put it in the place of {damaged_store}/orders-0 while the broker is stopped, or {revive}",
    ]
    assert values(tmp_path / "out") == [f"{n}={'x' * n}" for n in range(20) if n != 10]
    assert run("verify", tmp_path / "out").exit_code == 0
    recovered = run("recover", tmp_path / "out", "--ignore-clean-shutdown").stdout
    assert recovered == "1 partition: 0 to be repaired, 0 bytes of logs to be cut\n"


def test_the_account_has_the_facts_of_damage_jsonl(damaged_store: Path, tmp_path: Path) -> None:
    result = run("salvage", damaged_store, "orders/0", tmp_path / "out", "--json")
    account = json.loads(result.stdout)
    assert account == account_of(tmp_path / "out")
    (row,) = map(json.loads, run("cat", damaged_store, "orders/0/damage.jsonl").stdout.splitlines())
    assert row.pop("name") == f"damage/{row['segment']}@{row['position']}"
    assert account["damage"] == [row]
    assert account["lost"] == [{"offset": 10, "endOffset": 11}]
    assert (account["unsummed"], account["leaderEpochs"], account["notes"]) == ([], [], [])


def test_unsummed_records_are_taken_on_demand_and_marked(damaged_store: Path, tmp_path: Path) -> None:
    result = run("salvage", damaged_store, "orders/0", tmp_path / "out", "--even-unsummed")
    assert result.exit_code == 0, result.output
    (row,) = account_of(tmp_path / "out")["unsummed"]
    assert (row["offset"], row["lastOffset"], row["records"], row["hasChecksum"]) == (10, 10, 1, False)
    said = f"even so: offset 10, 1 record of the broken batch at {row['position']} of {0:020}.log; nothing vouches for "
    assert result.stdout.splitlines()[1] == f"{said}them"
    assert "lost:" not in result.stdout
    salvaged = values(tmp_path / "out")
    assert salvaged[10] == f"10=y{'x' * 9}", "the byte that was hit is as it was hit"
    assert len(salvaged) == 20
    assert run("verify", tmp_path / "out").exit_code == 0


@pytest.mark.parametrize("state", ["-delete", "-stray"])
def test_directories_of_no_topic_are_salvaged(damaged_store: Path, tmp_path: Path, state: str) -> None:
    name = f"orders-0.{'0123456789abcdef' * 2}{state}"
    (damaged_store / "orders-0").rename(damaged_store / name)
    for number, path in enumerate((f".kafkafs/unattached/{name}", name)):
        out = tmp_path / f"out{number}"
        result = run("salvage", damaged_store, path, out)
        assert result.exit_code == 0
        assert len(values(out)) == 19
        last = result.stdout.splitlines()[-1]
        assert last == f"next: kafkafs revive {out} --into DEST makes log directories with it for a fresh broker"


def test_a_salvaged_partition_takes_the_place_of_the_damaged_one(damaged_store: Path, tmp_path: Path) -> None:
    assert run("salvage", damaged_store, "orders/0", tmp_path / "out").exit_code == 0
    (damaged_store / "orders-0").rename(tmp_path / "orders-0.damaged")
    shutil.copytree(tmp_path / "out" / "orders-0", damaged_store / "orders-0")
    assert values(damaged_store) == values(tmp_path / "out")
    recovered = run("recover", damaged_store, "--ignore-clean-shutdown").stdout
    assert f"{damaged_store}/orders-0" not in recovered, "it is not cut at the gap"


def test_several_partitions_share_a_directory_which_revive_takes(damaged_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for log in ("orders/0", "orders/1", "payments/0"):
        assert run("salvage", damaged_store, log, out).exit_code == 0
    assert run("verify", out).stderr.startswith("sound: 3 partitions")
    assert values(out, "payments/0") == ["0=of 1", "2=of 2"]
    result = run("revive", out, "--into", tmp_path / "revived")
    assert result.exit_code == 1, "an offset is on no disk"
    assert "damaged  offset 10, on every disk: the log was salvaged without offset 10" in result.output
    assert values(tmp_path / "revived") == values(out)


def revived_lines(*words: object) -> list[str]:
    result = run("revive", *words)
    assert result.exit_code in (0, 1), result.output
    return result.stdout.splitlines()


def test_a_hole_that_salvage_made_is_no_compaction(damaged_store: Path, tmp_path: Path) -> None:
    out, revived = tmp_path / "out", tmp_path / "revived"
    assert run("salvage", damaged_store, "orders/0", out).exit_code == 0
    lines = revived_lines(out, "--into", revived)
    assert "    damaged  offset 10, on every disk: the log was salvaged without offset 10" in lines
    assert not [line for line in lines if "it was compacted" in line]
    assert (revived / "cleaner-offset-checkpoint").read_text().splitlines() == ["0", "0"]
    verified = run("verify", revived)
    assert (verified.exit_code, json.loads(verified.stdout.splitlines()[0])["kind"]) == (1, "offset_gap")


def test_a_log_that_was_compacted_before_it_was_salvaged(damaged_store: Path, tmp_path: Path) -> None:
    (damaged_store / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    out = tmp_path / "out"
    assert run("salvage", damaged_store, "orders/0", out).exit_code == 0
    assert account_of(out)["isCompacted"]
    lines = revived_lines(out, "--into", tmp_path / "revived")
    assert [line for line in lines if "it was compacted" in line]
    assert "orders 0 0" in (tmp_path / "revived" / "cleaner-offset-checkpoint").read_text().splitlines()


def test_an_account_that_cannot_be_read_says_nothing(damaged_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("salvage", damaged_store, "orders/0", out).exit_code == 0
    (out / "orders-0.salvage.json").write_text('{"lost": 1}')
    lines = revived_lines(out, "--plan", "--into", tmp_path / "revived")
    assert [line for line in lines if "this is no account that kafkafs salvage writes" in line]


def test_what_is_there_stays(damaged_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("salvage", damaged_store, "orders/0", out).exit_code == 0
    before = state(out)
    again = run("salvage", damaged_store, "orders/0", out)
    assert (again.exit_code, state(out)) == (3, before)
    assert again.stderr == (
        f"kafkafs: orders-0 is there already: give another directory, or remove it and orders-0.salvage.json ({out})\n"
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert run("salvage", damaged_store, "payments/0", tmp_path / "other").exit_code == 2
    assert run("salvage", damaged_store, "payments/0", tmp_path / "none" / "out").exit_code == 2
    (tmp_path / "file").touch()
    assert run("salvage", damaged_store, "payments/0", tmp_path / "file").exit_code == 2
    assert not list(out.glob("*attempt*"))


def test_the_store_itself_is_no_place_for_a_copy(damaged_store: Path, tmp_path: Path) -> None:
    before = state(damaged_store)
    (tmp_path / "link").symlink_to(damaged_store / "orders-0")
    for out in (damaged_store, damaged_store / "out", tmp_path / "link" / "out"):
        refused = run("salvage", damaged_store, "payments/0", out)
        assert refused.exit_code == 3
        assert "the copy would lie in the store itself" in refused.stderr
    assert state(damaged_store) == before
    assert not (damaged_store / "out").exists()


def test_a_directory_whose_name_is_no_text(damaged_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "\udcff"
    words = [sys.executable, "-P", "-m", "kafkafs", "salvage", damaged_store, "orders/0", out]
    assert subprocess.run(words, check=True, capture_output=True).stderr == b""
    assert account_of(out)["salvaged"] == f"{out}/orders-0"


@pytest.mark.parametrize(
    ("path", "code"),
    [("orders/9", 1), ("none/0", 1), ("orders", 2), ("orders/0/values", 2), (f"orders-0.{'0' * 32}-stray", 1)],
)
def test_what_is_no_partition(filled_store: Path, tmp_path: Path, path: str, code: int) -> None:
    result = run("salvage", filled_store, path, tmp_path / "out")
    assert result.exit_code == code
    assert not (tmp_path / "out").exists()


def test_a_partition_that_lost_everything_is_an_empty_log(filled_store: Path, tmp_path: Path) -> None:
    log = filled_store / "orders-0" / f"{0:020}.log"
    log.write_bytes(b"\xff" * log.stat().st_size)
    assert run("salvage", filled_store, "orders/0", tmp_path / "out").exit_code == 0
    assert account_of(tmp_path / "out")["lost"] == [{"offset": 0, "endOffset": 20}]
    assert values(tmp_path / "out") == []
    assert run("verify", tmp_path / "out").exit_code == 0


@pytest.mark.golden
def test_the_logs_that_were_damaged_on_purpose(datasets: Callable[[str], Path], tmp_path: Path) -> None:
    """The account names the places that DAMAGE.txt names, and nothing in the logs that were not damaged."""
    before = datasets("kafka-3.9-recovery") / "kafka-3.9-recovery" / "before"
    found = {}
    for log in (
        "t-lz4/0",
        "t-zstd/0",
        "t-v1/0",
        "t-none/0",
        "t-gzip/0",
        "t-compact-gzip/0",
        "t-upgrade/0",
        "t-mixed/0",
    ):
        (log_dir,) = (path for path in before.glob("d*") if (path / log.replace("/", "-")).exists())
        result = run("salvage", log_dir, log, tmp_path / "out", "--json")
        assert result.exit_code == 0, result.output
        found[log] = [(row["kind"], row["position"], row["endPosition"]) for row in json.loads(result.stdout)["damage"]]
    assert found == {
        "t-lz4/0": [("checksum", 26084, 28407)],
        "t-zstd/0": [("checksum", 31677, 33132)],
        "t-v1/0": [("checksum", 10590, 12379)],
        "t-none/0": [("torn_tail", 51981, 52413)],
        "t-gzip/0": [("torn_tail", 55757, 55854)],
        "t-compact-gzip/0": [],
        "t-upgrade/0": [("zero_tail", 63223, 63232)],
        "t-mixed/0": [],
    }
