"""A store on a file system that is mounted read-only: it can be planned for, and each refusal says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED
from storage.clock import Clock
from storage.files import Files
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result
    from tests.fixtures.small_disks import SmallDisk


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def crashed(path: Path) -> Path:
    """Make a store that was not closed properly."""
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1)
    (path / ".kafka_cleanshutdown").unlink()
    return path


def test_recovery_is_planned_on_a_read_only_disk_and_says_how_to_apply_it(
    small_disks: Callable[..., SmallDisk],
) -> None:
    disk = small_disks(megabytes=32)
    store = crashed(disk.path / "store")
    disk.remount(read_only=True)
    try:
        planned, done = run("recover", store), run("recover", store, "--apply")
        deleted = run("retention", store, "--apply")
    finally:
        disk.remount(read_only=False)
    assert (planned.exit_code, planned.stderr) == (EXIT_DONE, "")
    assert "added    .kafka_cleanshutdown" in planned.stdout
    assert (done.exit_code, done.stdout) == (EXIT_FAILED, "")
    assert done.stderr == (
        "kafkafs: the file system is mounted read-only: remount it writable, or leave out --apply to see the plan "
        f"({store}/.lock)\n"
    )
    assert deleted.exit_code == EXIT_FAILED
    assert deleted.stderr == f"kafkafs: {store}/.lock: Read-only file system; remount the file system writable\n"
    assert run("recover", store, "--apply").exit_code == EXIT_DONE
