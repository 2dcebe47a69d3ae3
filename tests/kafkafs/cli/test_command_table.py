"""Commands are imported when they are needed, and every failure ends in one sentence and the exit code that it has."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli import CommandTable, main
from kafkafs.mount.options import described_options
from kafkafs.render.kcat_format import TOKENS
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


def test_a_word_that_is_nearly_a_command_is_asked_about() -> None:
    result = CliRunner().invoke(main, ["topic"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no command 'topic'; did you mean topics?" in result.stderr


def test_names_are_text_where_the_locale_has_only_ascii() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kafkafs", "help", "é"],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "there is no help on 'é';" in done.stderr.decode()


def test_an_alias_is_a_command_and_no_list_shows_it() -> None:
    for words, usage in [
        (["unmount"], "kafkafs unmount"),
        (["topics", "ls"], "topics ls"),
        (["topics", "rm"], "topics rm"),
    ]:
        result = CliRunner().invoke(main, [*words, "--help"], prog_name="kafkafs")
        assert (result.exit_code, result.stderr) == (0, "")
        assert usage in result.stdout
    assert "unmount " not in CliRunner().invoke(main, ["--help"]).stdout


@pytest.mark.parametrize("word", sorted(main.hints))
def test_what_other_tools_call_a_command_leads_to_ours(word: str) -> None:
    assert word not in main.modules
    result = CliRunner().invoke(main, [word, "x"])
    assert (result.exit_code, result.stdout) == (2, "")
    (hint,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    for command in re.findall(r"`kafkafs ([a-z]+)", hint):
        assert command in main.modules
    assert "`kafkafs " in hint


def test_every_option_of_a_mount_says_what_it_takes() -> None:
    shown = CliRunner().invoke(main, ["mount", "--help"]).stdout
    for written, about in described_options().items():
        assert re.search(rf"^ +{re.escape(written)}\n +{re.escape(about)}$", shown, re.MULTILINE), written


def test_every_token_of_a_format_is_in_the_help() -> None:
    shown = CliRunner().invoke(main, ["cat", "--help"]).stdout
    assert all(token in shown for token in TOKENS.split())


def test_an_option_and_a_variable_name_the_store(filled_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(*words: str) -> str:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    store, path = str(filled_store), "orders/0/offset/5"
    assert printed("cat", store, path) == "xxxxx"
    assert printed("cat", "-s", store, path) == "xxxxx"
    assert printed("cat", path, f"--store={store}") == "xxxxx"
    monkeypatch.setenv("KAFKAFS_STORE", store)
    assert printed("cat", path) == "xxxxx"
    assert printed("topics", "list") == printed("topics", "list", "-s", store)
    monkeypatch.setenv("KAFKAFS_STORE", "/nowhere")
    assert printed("cat", "-s", store, path) == "xxxxx"
    assert CliRunner().invoke(main, ["cat", path]).exit_code == 2
