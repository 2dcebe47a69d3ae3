"""`kafkafs backup` as a command: what it prints, its exit codes, and that nothing of a broker's store changes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from waiting import until

from kafkafs.cli import main
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND, EXIT_USAGE
from storage.log_dir import RUN_MANIFEST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

TOPICS = ("t-gzip", "t-idem", "__consumer_offsets", "__cluster_metadata")


def backup(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["backup", *map(str, arguments)])
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def store(datasets: Callable[[str], Path], tmp_path: Path) -> str:
    """Some partitions of both log directories of a broker that was killed."""
    source = datasets("kafka-3.9-killed") / "kafka-3.9-killed"
    for name in ("d1", "d2"):
        (tmp_path / name).mkdir()
        for each in (source / name).iterdir():
            if each.is_file():
                shutil.copy2(each, tmp_path / name)
            elif each.name.startswith(TOPICS):
                shutil.copytree(each, tmp_path / name / each.name)
    return f"{tmp_path / 'd1'},{tmp_path / 'd2'}"


def everything(store: str) -> dict[Path, tuple[int, int, int]]:
    found = {}
    for root in map(Path, store.split(",")):
        for path in (root, *root.rglob("*")):
            status = path.stat()
            found[path] = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
    return found


def test_a_brokers_store_is_copied_and_not_touched(store: str, tmp_path: Path) -> None:
    before = everything(store)
    dest = tmp_path / "backups"
    planned = backup(store, dest, "--plan", "--jsonl")
    assert not dest.exists()
    done = backup(store, dest, "--jsonl")
    assert (planned.exit_code, done.exit_code) == (EXIT_DONE, EXIT_DONE), done.output
    assert everything(store) == before
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [json.loads(line) for line in planned.stdout.splitlines()]
    names = ("topic", "partition", "startOffset", "endOffset")
    assert [[row[name] for name in names] for row in rows] == [[row[name] for name in names] for row in expected]
    assert rows[0]["topic"] == "__consumer_offsets"
    assert rows[-1]["topic"] == "__cluster_metadata"
    verified = CliRunner().invoke(main, ["verify", str(dest / "latest")])
    assert verified.exit_code == EXIT_DONE, verified.output
    assert backup("--check", dest / "latest").exit_code == EXIT_DONE
    # A file that had changed less than a second before is copied once more.
    until(lambda: "0.0 MB copied" in backup(store, dest).output, "each run copies what did not change")


@pytest.mark.golden
def test_what_is_above_the_high_watermark_is_counted(datasets: Callable[[str], Path], tmp_path: Path) -> None:
    for name in ("d1", "d2"):
        shutil.copytree(datasets("kafka-3.9") / "kafka-3.9" / name, tmp_path / name)
    store = f"{tmp_path / 'd1'},{tmp_path / 'd2'}"
    command = [sys.executable, "-m", "kafkafs", "append", "--rw", store, "t-none/0/append"]
    subprocess.run(command, input=b"one\ntwo\n", capture_output=True, check=True, timeout=60)
    left_out = "2 offsets of 1 partition above the high watermark are left out, --to-end copies them"
    (planned,) = (row for row in rows_of(backup(store, tmp_path / "backups", "--plan", "--jsonl")) if above(row))
    assert (planned["topic"], above(planned)) == ("t-none", 2)
    done = backup(store, tmp_path / "backups", "--jsonl")
    assert [above(row) for row in rows_of(done) if above(row)] == [2]
    assert left_out in done.stderr
    manifest = [json.loads(line) for line in (tmp_path / "backups/latest" / RUN_MANIFEST_NAME).read_text().splitlines()]
    assert manifest[-1]["aboveHighWatermark"] == {"partitions": 1, "offsets": 2}
    whole = backup(store, tmp_path / "whole", "--to-end")
    assert "left out" not in whole.output
    verified = CliRunner().invoke(main, ["find", str(tmp_path / "whole/latest"), "t-none/0", "--grep", "^(one|two)$"])
    assert len(verified.stdout.splitlines()) == 2


def above(row: dict[str, object]) -> object:
    return row["aboveHighWatermark"]


def rows_of(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_rot_and_what_does_not_belong_are_found(store: str, tmp_path: Path) -> None:
    dest = tmp_path / "backups"
    backup(store, dest)
    run = (dest / "latest").resolve()
    rotten = max(run.glob("t-gzip-*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(rotten.read_bytes())
    data[100] ^= 1
    rotten.write_bytes(data)
    (run / "added").touch()
    (run / "meta.properties").unlink()
    checked = backup("--check", run)
    assert checked.exit_code == EXIT_FOUND
    found = {line["path"]: line["reason"] for line in map(json.loads, checked.stdout.splitlines())}
    assert found == {
        str(rotten.relative_to(run)): "its checksum is another",
        "added": "it is not in the manifest: it was added later",
        "meta.properties": "it is missing",
    }


def test_a_latest_that_leads_nowhere_names_the_newest_run(store: str, tmp_path: Path) -> None:
    dest = tmp_path / "backups"
    backup(store, dest)
    older = (dest / "latest").resolve()
    backup(store, dest)
    gone = (dest / "latest").resolve()
    shutil.rmtree(gone)
    said = f"it is a link that leads nowhere, to runs/{gone.name}, which was removed; "
    for words in (["backup", "--check"], ["ls"], ["verify"]):
        result = CliRunner().invoke(main, [*words, str(dest / "latest")])
        assert result.exit_code == EXIT_USAGE
        assert f"{said}the newest complete run is {older} (" in result.stderr
    shutil.rmtree(older)
    assert f"{said}no complete run is left" in backup("--check", dest / "latest").stderr
    (tmp_path / "latest").symlink_to("nowhere")
    assert "there is no such directory" in CliRunner().invoke(main, ["ls", str(tmp_path / "latest")]).stderr


def test_a_run_is_checked_although_the_environment_names_a_store(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(store, tmp_path / "backups")
    monkeypatch.setenv("KAFKAFS_STORE", store)
    assert backup("--check", tmp_path / "backups" / "latest").exit_code == EXIT_DONE
    assert backup(tmp_path / "backups").exit_code == EXIT_DONE
    monkeypatch.setenv("KAFKAFS_STORE", store.partition(",")[0])
    refused = backup(tmp_path / "backups")
    assert (refused.exit_code, "was not named" in refused.stderr) == (EXIT_FAILED, True)
    assert backup("--accept-missing", tmp_path / "backups").exit_code == EXIT_DONE


def test_paths_are_printed_without_going_up_again(store: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("elsewhere/deep")
    assert backup(store, tmp_path / "d1" / ".." / "backups").stdout.startswith(f"{tmp_path}/backups/runs/")
    through_link = backup(store, tmp_path / "link" / ".." / "backups")
    assert through_link.stdout.startswith(f"{tmp_path}/link/../backups/runs/"), "it leads elsewhere"
    assert (tmp_path / "elsewhere" / "backups" / "latest").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["{store}"], EXIT_USAGE),
        (["{store}", "{tmp}/d1/inside"], EXIT_FAILED),
        (["{store}", "{tmp}"], EXIT_FAILED),
        (["{store}", "{tmp}/none/none"], EXIT_USAGE),
        (["{tmp}/none", "{tmp}/backups"], EXIT_USAGE),
        (["--check", "{tmp}/d1"], EXIT_USAGE),
        (["--check", "{tmp}/d1", "{store}", "{tmp}/backups"], EXIT_USAGE),
        ([], EXIT_USAGE),
    ],
)
def test_what_is_refused_makes_nothing(store: str, tmp_path: Path, arguments: list[str], code: int) -> None:
    before = everything(store)
    result = backup(*(each.format(store=store, tmp=tmp_path) for each in arguments))
    assert result.exit_code == code, result.output
    assert everything(store) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d1", "d2"]
