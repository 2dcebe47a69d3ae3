"""Commands are imported when they are needed, and every failure ends in one sentence and the exit code that it has."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli import CommandTable
from storage.errors import ChecksumError

FAILURES = {
    "damage": ChecksumError("the checksum is wrong", path="0.log", position=61, offset=7),
    "missing": FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "a/b"),
    "bytes": PermissionError(errno.EACCES, os.strerror(errno.EACCES), b"a/\xff"),
    "nameless": OSError("the disk is gone"),
    "interrupt": KeyboardInterrupt(),
    "bug": KeyError("x"),
}


def failing() -> CommandTable:
    """Commands that print a line and then fail, each in its way."""
    table = CommandTable(modules={}, name="kafkafs")

    def add(name: str, failure: BaseException) -> None:
        @table.command(name)
        def fail() -> None:
            click.echo("before")
            raise failure

    for name, failure in FAILURES.items():
        add(name, failure)
    return table


@pytest.mark.parametrize(
    ("name", "sentence", "code"),
    [
        ("damage", "the checksum is wrong (0.log, position 61, offset 7)", 3),
        ("missing", "a/b: No such file or directory", 3),
        ("bytes", "a/\\udcff: Permission denied", 3),
        ("nameless", "the disk is gone", 3),
        ("interrupt", "interrupted", 130),
    ],
)
def test_a_failure_is_a_sentence_and_a_code(name: str, sentence: str, code: int) -> None:
    result = CliRunner().invoke(failing(), [name])
    assert (result.exit_code, result.stdout, result.stderr) == (code, "before\n", f"kafkafs: {sentence}\n")


def test_a_bug_is_a_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKAFS_TRACEBACK", raising=False)
    result = CliRunner().invoke(failing(), ["bug"])
    assert result.exit_code == 3
    assert result.stderr.startswith("kafkafs: this is a bug in kafkafs: KeyError: 'x'; ")
    assert "Traceback" not in result.stderr


def test_who_looks_for_a_bug_sees_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAFS_TRACEBACK", "1")
    assert "Traceback" in CliRunner().invoke(failing(), ["bug"]).stderr


def test_wrong_usage_is_clicks() -> None:
    result = CliRunner().invoke(failing(), ["no-such"])
    assert result.exit_code == 2
    assert "Try 'kafkafs --help' for help." in result.stderr


def test_a_commands_module_is_imported_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_command.py").write_text(
        'import click\n@click.command()\ndef late():\n    """Come late."""\n    click.echo("here")\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    table = CommandTable(modules={"late": "late_command", "other": "no_such_module"}, name="kafkafs")
    assert table.list_commands(click.Context(table)) == ["late", "other"]
    assert "late_command" not in sys.modules
    assert CliRunner().invoke(table, ["late"]).stdout == "here\n"
    monkeypatch.delitem(sys.modules, "late_command")


def run(code: str, **streams: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-P", "-c", code], stderr=subprocess.PIPE, **streams)


PRINT_MUCH = """
import click
from kafkafs.cli import CommandTable
table = CommandTable(modules={}, name="kafkafs", help="help " * 100_000)
@table.command()
def much():
    for _ in range(100_000):
        print("a line")
table(%s)
"""


@pytest.mark.parametrize("arguments", [["much"], ["--help"]])
def test_output_without_a_reader_ends_in_silence(arguments: list[str]) -> None:
    process = run(PRINT_MUCH % arguments, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (141, b"")


def test_output_that_finds_no_room_is_a_failure() -> None:
    with Path("/dev/full").open("wb") as full:
        process = run(PRINT_MUCH % ["much"], stdout=full)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (3, b"kafkafs: standard output: No space left on device\n")


def test_output_that_is_closed_is_a_failure() -> None:
    process = run("import os; os.close(1); import sys; sys.stdout = None\n" + PRINT_MUCH % ["much"])
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (3, b"kafkafs: standard output: Bad file descriptor\n")


def test_the_version_is_printed_without_importing_a_command() -> None:
    code = """
import sys
from kafkafs.cli import main
try:
    main(["--version"], prog_name="kafkafs")
finally:
    print(sorted(name for name in sys.modules if name.startswith(("kafkafs.", "storage"))))
"""
    process = run(code, stdout=subprocess.PIPE)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    version, modules = output.decode().splitlines()
    assert version.startswith("kafkafs ")
    assert modules == (
        "['kafkafs.allocation', 'kafkafs.cli', 'kafkafs.cli.failures', 'kafkafs.cli.standard_streams', "
        "'kafkafs.interrupts', 'kafkafs.plain_text']"
    )
