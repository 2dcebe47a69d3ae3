"""The table of exit codes: each row by every command that can end so, and the same as the page has it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from mounts import require_fuse

from kafkafs.cli import failures, main
from kafkafs.cli.failures import exit_code
from kafkafs.mount.errors import MountError, NotMountedError
from kafkafs.spark.errors import JobError, MissingTopicError, OptionError
from kafkafs.tree.errors import DamagedError, NotThereError
from storage.errors import NotAStoreError, StorageError, StoreLockedError, UnknownPartitionError

if TYPE_CHECKING:
    from pathlib import Path


def ends_with(command: str, store: Path) -> int:
    words = [word.replace("S", str(store), 1) if word.startswith("S") else word for word in command.split()]
    result = CliRunner().invoke(main, words)
    assert "Traceback" not in result.output
    assert "a bug in kafkafs" not in result.output
    return result.exit_code


SOUND = [
    "ls S",
    "cat S orders/0/offset/5",
    "warm S",
    "topics list S",
    "topics config S orders",
    "topics config S orders segment.ms=7",
    "topics create S new",
    "topics delete S orders",
    "topics delete S orders --apply",
    "verify S",
    "dump S/orders-0/00000000000000000000.log",
    "recover S --dry-run",
    "retention S",
    "retention S --apply",
    "compact S",
    "compact S --dry-run",
    "compact S --apply",
    "stats S",
    "groups S",
    "tail S orders/0 --no-follow",
    "salvage S orders/0 S-salvaged",
    "help",
    "help cli",
    "help changes",
]
NOT_THERE = [
    "ls S none",
    "ls S orders/9",
    "ls S orders/0/offset/99",
    "cat S none/0/values",
    "cat S orders/0/offset/99",
    "cat S orders/0/offset/5 none/0/values orders/0/offset/6",
    "cat S orders/0/by-time/2100-01-01",
    "cat S orders/0/segments/none",
    "warm S none",
    "append S none/0/append",
    "append S orders/9/append",
    "topics list S none",
    "topics config S none",
    "topics config S none segment.ms=7",
    "topics delete S none",
    "topics delete S none --apply",
    "verify S none",
    "stats S none",
    "groups S none",
    "tail S none",
    "tail S orders/9 orders/0 --no-follow",
    "tail S orders --key none --no-follow",
    "retention S none",
    "retention S none --apply",
    "compact S none",
    "compact S none --dry-run",
    "salvage S none/0 S-salvaged",
    "salvage S orders/9 S-salvaged",
    "dump S/orders-0/00000000000000000099.log",
]
WRONG = [
    "ls",
    "ls S --none",
    "ls S orders/0/none",
    "cat S orders",
    "cat S orders/0/offset/none",
    "cat S orders/0/values -f %y",
    "warm S orders/0/none",
    "append S orders/0/values",
    "append S orders/0/none",
    "topics create S a/b",
    "topics create S new no.such.setting=1",
    "topics create S new segment.ms=0",
    "topics config S orders segment.ms=0",
    "topics config S orders segment.ms",
    "topics delete S orders --dry-run --apply",
    "verify",
    "dump S/meta.properties",
    "retention S --dry-run --apply",
    "compact S --dry-run --apply",
    "stats S --json --csv",
    "groups S --json --csv",
    "tail S orders/0/info",
    "tail S orders -F 0",
    "mount S S-mnt -o none",
    "salvage S orders/0",
    "salvage S orders S-salvaged",
    "help none",
    "none",
]
NO_STORE = [
    "ls {}",
    "cat {} orders/0/values",
    "warm {}",
    "append {} orders/0/append",
    "topics list {}",
    "topics config {} orders",
    "topics delete {} orders",
    "topics delete {} orders --apply",
    "verify {}",
    "recover {} --dry-run",
    "retention {}",
    "retention {} --apply",
    "compact {}",
    "compact {} --apply",
    "stats {}",
    "groups {}",
    "tail {} orders",
]
LOCKED = [
    "append S orders/0/append",
    "topics create S new",
    "topics config S orders segment.ms=7",
    "topics delete S orders --apply",
    "retention S --apply",
    "compact S --apply",
]


@pytest.mark.parametrize("command", SOUND)
def test_0_is_done(filled_store: Path, command: str) -> None:
    assert ends_with(command, filled_store) == 0


@pytest.mark.parametrize("command", NOT_THERE)
def test_1_is_not_found(filled_store: Path, command: str) -> None:
    assert ends_with(command, filled_store) == 1


@pytest.mark.parametrize("command", ["verify S", "dump S/orders-0/00000000000000000000.log"])
def test_1_is_damage_that_was_looked_for(damaged_store: Path, command: str) -> None:
    assert ends_with(command, damaged_store) == 1


@pytest.mark.parametrize("command", WRONG)
def test_2_is_wrong_usage(filled_store: Path, command: str) -> None:
    assert ends_with(command, filled_store) == 2


@pytest.mark.parametrize("command", NO_STORE)
def test_2_is_no_store(tmp_path: Path, command: str) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter").write_text("mine")
    for place in ("none", "letters", "letters/letter"):
        assert ends_with(command.format("S"), tmp_path / place) == 2, place
    assert [path.name for path in tmp_path.rglob("*")] == ["letters", "letter"]


@pytest.mark.parametrize(
    "command", ["cat S orders/0/values", "cat S none/0/values orders/0/values", "warm S", "tail S orders/0 -n 15"]
)
def test_3_is_damage_in_the_way(damaged_store: Path, command: str) -> None:
    assert ends_with(command, damaged_store) == 3


@pytest.mark.parametrize("command", ["warm S orders/1", "cat S orders/1/values", "retention S", "tail S orders/1"])
def test_3_is_what_cannot_be_read(broken_store: Path, command: str) -> None:
    assert ends_with(command, broken_store) == 3


def test_3_is_what_cannot_be_verified(filled_store: Path) -> None:
    log = filled_store / "orders-1" / f"{0:020}.log"
    log.unlink(missing_ok=True)
    os.mkfifo(log)
    assert ends_with("verify S", filled_store) == 3


@pytest.mark.parametrize("command", [*LOCKED, "recover S --apply"])
def test_3_is_what_is_refused(filled_store: Path, command: str) -> None:
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    holding = [sys.executable, "-c", hold, str(filled_store / ".lock")]
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert ends_with(command, filled_store) == 3
        holder.communicate(b"\n", timeout=60)


@pytest.mark.parametrize("command", LOCKED)
def test_3_is_a_store_of_another(filled_store: Path, command: str) -> None:
    (filled_store / "kafkafs-topics.properties").unlink()
    assert ends_with(command, filled_store) == 3
    assert ends_with("topics create S orders", filled_store) == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyError("a bug"), 3),
        (OSError("the disk"), 3),
        (StorageError("refused"), 3),
        (StoreLockedError("locked"), 3),
        (DamagedError("damage"), 3),
        (JobError("failed"), 3),
        (JobError("damage", kind="CorruptBatchError"), 3),
        (MountError("refused"), 3),
        (MountError("no store", exit_code=2), 2),
        (NotAStoreError("no store"), 2),
        (OptionError("wrong"), 2),
        (JobError("no store", kind="NotAStoreError"), 2),
        (NotThereError("not there"), 1),
        (UnknownPartitionError("not there"), 1),
        (MissingTopicError("not there"), 1),
        (JobError("not there", kind="MissingTopicError"), 1),
        (NotMountedError("not mounted"), 1),
    ],
)
def test_every_error_has_a_row(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_mounting_has_the_same_codes(filled_store: Path) -> None:
    require_fuse()
    script = """
    K="$0 -P -m kafkafs"; mkdir $1-full; touch $1-full/file
    $K umount $1-mnt; echo $?
    $K mount $1-full $1-mnt; echo $?
    $K mount $1 $1-full; echo $?
    $K mount $1 $1-mnt -o none; echo $?
    $K mount $1 $1-mnt > /dev/null; echo $?
    $K mount $1 $1-mnt; echo $?
    $K mount $1 $1-mnt2; echo $?
    (cd $1-mnt; $K umount ../store-mnt); echo $?
    $K umount $1-mnt; echo $?
    """
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, str(filled_store)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["1", "2", "3", "2", "0", "3", "3", "3", "0"], done.stderr


def test_the_helper_of_mount_has_the_codes_of_mount(filled_store: Path) -> None:
    require_fuse()
    script = """
    K="$0 -P -m kafkafs.cli.mount_helper"; mkdir $1-full; touch $1-full/file
    $K $1 $1-mnt -o none; echo $?
    $K $1-full $1-mnt; echo $?
    $K $1 $1-full; echo $?
    $K $1 $1-mnt; echo $?
    $K $1 $1-mnt; echo $?
    $0 -P -m kafkafs umount $1-mnt
    """
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, str(filled_store)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["1", "1", "32", "0", "32"], done.stderr


def test_a_demo_that_cannot_be_mounted_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "demo" / "mnt").mkdir(parents=True)
    (tmp_path / "demo" / "mnt" / "file").touch()
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-P", "-m", "kafkafs", "demo", str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 3
    assert "is not mounted, but can be looked into all the same" in done.stdout
    shutil.rmtree(tmp_path / "demo")


def test_130_is_an_interrupt(filled_store: Path) -> None:
    code = f"""
import os, signal
from kafkafs.tree.stream_file import StreamFile
StreamFile.contents = lambda self: [os.kill(os.getpid(), signal.SIGINT)]
from kafkafs.cli import main
main(["cat", {str(filled_store)!r}, "orders/0/values"], prog_name="kafkafs")
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "kafkafs: interrupted\n")


def test_the_page_has_a_row_for_each() -> None:
    page = files("kafkafs").joinpath("docs", "cli.md").read_text(encoding="utf-8")
    rows = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert rows == {value for name, value in vars(failures).items() if name.startswith("EXIT_")}
