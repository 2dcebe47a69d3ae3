"""Commands on stores where something else stands in the place of a file: it is named, not opened and not waited for."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND
from storage.log_dir import LOCK_NAME, META_PROPERTIES_NAME, SETTINGS_NAME, OffsetCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

MARKER: Final = ".kafka_cleanshutdown"
LOG: Final = f"orders-0/{0:020}.log"
NAMES: Final = [
    LOG,
    f"orders-0/{0:020}.index",
    f"orders-0/{0:020}.timeindex",
    f"orders-0/{0:020}.txnindex",
    f"orders-0/{20:020}.snapshot",
    f"orders-0/{0:020}.log.deleted",
    f"orders-0/{5:020}.log.swap",
    "orders-0/leader-epoch-checkpoint",
    "orders-0/leader-epoch-checkpoint.tmp",
    "orders-0/partition.metadata",
    "orders-0/notes",
    "orders-0",
    META_PROPERTIES_NAME,
    SETTINGS_NAME,
    f"{SETTINGS_NAME}.tmp",
    *(each.value for each in OffsetCheckpoint),
    f"{OffsetCheckpoint.RECOVERY_POINT}.tmp",
    MARKER,
    f"{MARKER}.tmp",
    LOCK_NAME,
    "kafkafs-commits.json",
    f"kafkafs-staged-{'0' * 32}",
]
"""Names below a log directory, of every kind of file."""
DIRECTORIES: Final = frozenset({"orders-0", "orders-0/notes", "orders-0/leader-epoch-checkpoint.tmp", f"{LOG}.deleted"})
"""Where a directory harms nothing."""
VICTIM: Final = b"a victim\n" * 100


def fifo(path: Path, outside: Path) -> None:  # noqa: ARG001
    os.mkfifo(path)


def unix_socket(path: Path, outside: Path) -> None:  # noqa: ARG001
    with socket.socket(socket.AF_UNIX) as made:
        directory = os.open(path.parent, os.O_PATH)
        made.bind(f"/proc/self/fd/{directory}/{path.name}")  # a socket's path is short
        os.close(directory)


def device(path: Path, outside: Path) -> None:  # noqa: ARG001
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero, which never ends


def link_to_file(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "victim")


def link_to_directory(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def dangling_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "none")


def others_file(path: Path, outside: Path) -> None:
    os.chown(outside / "victim", 1234, 1234)
    path.hardlink_to(outside / "victim")


def directory(path: Path, outside: Path) -> None:  # noqa: ARG001
    path.mkdir()


KINDS: Final[dict[str, Callable[[Path, Path], None]]] = {
    made.__name__: made
    for made in (
        fifo,
        unix_socket,
        device,
        link_to_file,
        link_to_directory,
        dangling_link,
        others_file,
        directory,
    )
}
ONLY_ROOT: Final = frozenset({"device", "others_file"})


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Make a file outside of the store."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "victim").write_bytes(VICTIM)
    return tmp_path / "outside"


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """End a run that waits."""
    signal.alarm(60)
    yield
    signal.alarm(0)


def placed(store: Path, outside: Path, name: str, kind: str) -> None:
    """Put something of this kind in the place of a file."""
    if kind in ONLY_ROOT and os.geteuid() != 0:
        pytest.skip("needs root")
    path = store / name
    if path.exists():
        path.rename(outside.parent / "moved")
    KINDS[kind](path, outside)


def run(*arguments: object, given: str = "") -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)), input=given)
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_named_and_left_alone(filled_store: Path, outside: Path, name: str, kind: str) -> None:
    placed(filled_store, outside, name, kind)
    before = os.lstat(filled_store / name)
    verified = run("verify", filled_store)
    assert len(verified.stderr.splitlines()) <= 1
    findings = [json.loads(line) for line in verified.stdout.splitlines()]
    for command in (("ls", filled_store, "orders/0/segments"), ("cat", filled_store, "orders/0/values")):
        done = run(*command)
        assert done.exit_code == EXIT_DONE or len(done.stderr.splitlines()) == 1
    run("recover", filled_store)
    if kind == "directory" and name in DIRECTORIES:
        return
    assert verified.exit_code == EXIT_FOUND or (verified.exit_code == EXIT_FAILED and "link" not in kind)
    assert name in {finding.get("path") for finding in findings}
    after = os.lstat(filled_store / name)
    assert (after.st_ino, after.st_mtime_ns, after.st_atime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_atime_ns,
    )
    assert (outside / "victim").read_bytes() == VICTIM


@pytest.mark.parametrize("kind", KINDS)
def test_the_other_partitions_are_counted_and_backed_up(
    filled_store: Path, outside: Path, tmp_path: Path, kind: str
) -> None:
    placed(filled_store, outside, f"orders-0/{0:020}.log", kind)
    counted = run("stats", filled_store, "--json")
    assert [(row["topic"], row["partition"]) for row in json.loads(counted.stdout)] == [("orders", 1), ("payments", 0)]
    assert counted.exit_code == EXIT_FAILED
    assert "orders-0" in counted.stderr
    backup = tmp_path / "backup"
    planned = run("backup", filled_store, backup, "--plan", "--json")
    assert [(row["topic"], row["partition"]) for row in json.loads(planned.stdout)] == [("orders", 1), ("payments", 0)]
    assert planned.exit_code == EXIT_FAILED
    assert "orders-0 cannot be read: " in planned.stderr
    copied = run("backup", filled_store, backup)
    assert copied.exit_code == EXIT_FAILED
    assert "orders-0 cannot be read: " in copied.stderr
    (taken,) = (backup / "runs").iterdir()
    assert sorted(each.name for each in taken.iterdir() if each.is_dir()) == ["orders-1", "payments-0"]
    assert (outside / "victim").read_bytes() == VICTIM
