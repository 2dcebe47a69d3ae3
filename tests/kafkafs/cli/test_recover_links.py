"""Commands on stores with symbolic links in them: nothing outside of the store is touched or read."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

SENTENCE: Final = "is a symbolic link, which kafkafs does not follow"
MARKER: Final = ".kafka_cleanshutdown"
LOG: Final = f"orders-0/{0:020}.log"
IN_PARTITIONS: Final = [
    LOG,
    f"orders-0/{0:020}.index",
    f"orders-0/{0:020}.timeindex",
    f"orders-0/{0:020}.txnindex",
    "orders-0/leader-epoch-checkpoint",
    "orders-0/leader-epoch-checkpoint.tmp",
    "orders-0/partition.metadata",
    f"orders-0/{20:020}.snapshot",
    f"orders-0/{5:020}.log.swap",
    f"orders-0/{5:020}.log",
    "orders-0/notes",
    "orders-0",
]
CHECKPOINTS: Final = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
]


def run(command: str, *arguments: object) -> Result:
    result = CliRunner().invoke(main, [command, *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


@pytest.fixture
def crashed_store(filled_store: Path) -> Path:
    """Make a store that was not closed properly, whose every log is cut by recovery."""
    (filled_store / MARKER).unlink()
    (filled_store / "recovery-point-offset-checkpoint").unlink()
    for log in filled_store.glob(f"*/{0:020}.log"):
        with log.open("ab") as file:
            file.write(b"torn")
    return filled_store


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Make a directory outside of the store."""
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside"


def link_away(path: Path, outside: Path) -> None:
    """Move a file or directory out of the store, or make one there, and leave a link to it."""
    victim = outside / path.name
    if path.exists():
        path.rename(victim)
    else:
        victim.write_bytes(b"a victim " * 100)
    path.symlink_to(victim)


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("marked", [False, True], ids=["killed", "closed"])
@pytest.mark.parametrize("name", IN_PARTITIONS)
def test_a_partition_with_a_link_fails_and_the_others_are_recovered(
    crashed_store: Path, outside: Path, name: str, *, marked: bool
) -> None:
    if marked:
        (crashed_store / MARKER).write_text('{"version":0,"brokerEpoch":7}')
    link_away(crashed_store / name, outside)
    before, partition = contents(outside), contents(crashed_store / "orders-0")
    planned, done = run("recover", crashed_store), run("recover", crashed_store, "--apply")
    assert (planned.exit_code, done.exit_code) == (EXIT_FAILED, EXIT_FAILED)
    failure = f"{crashed_store / 'orders-0'}: failed: {crashed_store / name}: {SENTENCE}"
    assert failure in planned.stdout.splitlines()
    assert failure in done.stdout.splitlines()
    assert "  no clean-shutdown marker is written: not every log here is recovered" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1].endswith(", 1 failed")
    assert not (crashed_store / MARKER).exists()
    assert (contents(outside), contents(crashed_store / "orders-0")) == (before, partition)
    assert (crashed_store / name).is_symlink()
    assert not (crashed_store / "payments-0" / f"{0:020}.log").read_bytes().endswith(b"torn")


def test_checkpoints_keep_what_they_say_of_a_partition_that_is_a_link(crashed_store: Path, outside: Path) -> None:
    checkpoint = crashed_store / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 7\n")
    link_away(crashed_store / "orders-0", outside)
    assert run("recover", crashed_store, "--apply").exit_code == EXIT_FAILED
    assert checkpoint.read_text() == "0\n1\norders 0 7\n"


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_that_is_a_link_is_taken_for_empty_and_replaced(
    crashed_store: Path, outside: Path, name: str
) -> None:
    (outside / name).write_text("0\n1\norders 0 3\n")
    (crashed_store / name).unlink(missing_ok=True)
    (crashed_store / name).symlink_to(outside / name)
    before = contents(outside)
    planned, done = run("recover", crashed_store), run("recover", crashed_store, "--apply")
    assert (planned.exit_code, done.exit_code) == (EXIT_DONE, EXIT_DONE)
    for result in (planned, done):
        (line,) = (line for line in result.stdout.splitlines() if name in line)
        assert line.startswith(f"  rebuilt  {name}: it {SENTENCE}; ")
    assert contents(outside) == before
    assert not (crashed_store / name).is_symlink()
    assert (crashed_store / MARKER).exists()


def test_a_marker_that_is_a_link_is_not_believed(crashed_store: Path, outside: Path) -> None:
    (outside / "marker").write_text('{"version":0,"brokerEpoch":7}')
    (crashed_store / MARKER).symlink_to(outside / "marker")
    before = contents(outside)
    done = run("recover", crashed_store, "--apply")
    assert done.exit_code == EXIT_DONE
    assert "2 repaired" in done.stdout
    assert contents(outside) == before
    assert not (crashed_store / MARKER).is_symlink()


@pytest.mark.parametrize("name", [".lock", "meta.properties", "kafkafs-topics.properties"])
@pytest.mark.parametrize("is_there", [True, False], ids=["file", "nothing"])
def test_other_links_in_a_log_directory_end_the_recovery(
    crashed_store: Path, outside: Path, name: str, *, is_there: bool
) -> None:
    (crashed_store / name).unlink(missing_ok=True)
    (crashed_store / name).symlink_to(outside / "victim")
    if is_there:
        (outside / "victim").write_bytes(b"a victim")
    before = contents(outside)
    done = run("recover", crashed_store, "--apply")
    assert done.exit_code == EXIT_FAILED
    assert f"kafkafs: {crashed_store / name}: {SENTENCE}\n" in done.stderr
    assert contents(outside) == before
    assert not (crashed_store / MARKER).exists()


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", MARKER])
@pytest.mark.parametrize("is_there", [True, False], ids=["file", "nothing"])
def test_links_as_temporary_files_are_replaced_and_not_followed(
    crashed_store: Path, outside: Path, name: str, *, is_there: bool
) -> None:
    (crashed_store / f"{name}.tmp").symlink_to(outside / "victim")
    if is_there:
        (outside / "victim").write_bytes(b"a victim")
    before = contents(outside)
    done = run("recover", crashed_store, "--apply")
    assert done.exit_code == EXIT_DONE
    assert contents(outside) == before
    assert not os.path.lexists(crashed_store / f"{name}.tmp")
    assert (crashed_store / name).is_file()
    assert not (crashed_store / name).is_symlink()


@pytest.mark.parametrize(
    "name",
    [*IN_PARTITIONS, *CHECKPOINTS, MARKER, "meta.properties", "kafkafs-topics.properties", ".lock", "payments-7"],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_verify_reports_a_link_once(filled_store: Path, outside: Path, name: str, jobs: int) -> None:
    link_away(filled_store / name, outside)
    before = contents(outside)
    result = run("verify", filled_store, "--jobs", jobs)
    assert result.exit_code == EXIT_FOUND
    findings = [json.loads(line) for line in result.stdout.splitlines()]
    (link,) = (each for each in findings if each["kind"] == "symbolic_link")
    assert (link["severity"], link["path"]) == ("damage", name)
    assert link["reason"] == f"it {SENTENCE}"
    assert [each for each in findings if each["path"] == name] == [link]
    assert not [each for each in findings if each["severity"] == "unreadable"]
    assert contents(outside) == before


@pytest.mark.parametrize("name", [LOG, f"orders-0/{0:020}.index", "orders-0/leader-epoch-checkpoint", "orders-0/notes"])
def test_the_text_of_a_link_is_not_printed(filled_store: Path, outside: Path, name: str) -> None:
    (outside / "secret").write_text("secret")
    (filled_store / name).unlink(missing_ok=True)
    (filled_store / name).symlink_to(outside / "secret")
    path = f"orders/0/segments/{name.rpartition('/')[2]}"
    result = run("cat", filled_store, path)
    assert (result.exit_code, result.stdout) == (EXIT_FAILED, "")
    assert result.stderr == f"kafkafs: {filled_store / name}: {SENTENCE}\n"


def test_a_partition_that_is_a_link_is_no_partition(filled_store: Path, outside: Path) -> None:
    link_away(filled_store / "orders-0", outside)
    assert run("ls", filled_store, "orders").stdout.split() == ["1", "config"]
    assert run("cat", filled_store, "orders/0/values").exit_code == EXIT_FOUND


@pytest.mark.parametrize("command", ["retention", "compact"])
def test_commands_that_delete_touch_nothing_outside(filled_store: Path, outside: Path, command: str) -> None:
    settings = ["topics", "config", filled_store, "orders", "cleanup.policy=compact,delete", "retention.ms=1"]
    assert CliRunner().invoke(main, list(map(str, settings))).exit_code == EXIT_DONE
    link_away(filled_store / LOG, outside)
    before = contents(outside)
    run(command, filled_store, "orders", "--apply")
    assert contents(outside) == before


def test_a_store_may_be_reached_through_a_link(crashed_store: Path, tmp_path: Path) -> None:
    shutil.move(crashed_store, tmp_path / "disk")
    crashed_store.symlink_to(tmp_path / "disk")
    done = run("recover", crashed_store, "--apply")
    assert done.exit_code == EXIT_DONE
    assert done.stdout.startswith(f"{crashed_store / 'orders-0'}: offsets 0 to 19\n")
    assert run("verify", crashed_store).exit_code == EXIT_DONE
