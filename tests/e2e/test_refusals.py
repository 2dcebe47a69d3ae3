"""What is refused is said by each tool in its own words, with the right reason and exit code, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mounts import store_mounting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

PYTHON = 'python3 -c \'import sys; f = open(sys.argv[2], "ab", 0); f.write(open(sys.argv[1], "rb").read()); f.close()\''
# What each says if the write fails, and if the file cannot be opened, with the exit code of both.
WRITERS = {
    "bash": (
        'echo "$(cat {input})" >> {path}',
        ("bash: line 1: echo: write error: {reason}", 1),
        ("bash: line 1: {path}: {reason}", 1),
    ),
    "dash": (
        "dash -c 'echo \"$(cat {input})\" >> {path}'",
        ("dash: 1: echo: echo: I/O error", 1),  # it never says why
        ("dash: 1: cannot create {path}: {reason}", 2),
    ),
    "cat": ("cat {input} >> {path}", ("cat: write error: {reason}", 1), ("bash: line 1: {path}: {reason}", 1)),
    "cp": (
        "cp {input} {path}",
        ("cp: error writing '{path}': {reason}", 1),
        ("cp: cannot create regular file '{path}': {reason}", 1),
    ),
    "tee": ("tee -a {path} < {input} >/dev/null", ("tee: {path}: {reason}", 1), ("tee: {path}: {reason}", 1)),
    "dd": (
        "dd if={input} of={path} bs=4M status=none",
        ("dd: error writing '{path}': {reason}", 1),
        ("dd: failed to open '{path}': {reason}", 1),
    ),
    "python": (PYTHON + " {input} {path}", ("OSError: [Errno {number}] {reason}", 1), ("[Errno {number}] {reason}", 1)),
}
NUMBERS = {
    "Operation not permitted": 1,
    "Invalid argument": 22,
    "Read-only file system": 30,
    "Message too long": 90,
}
TOO_LARGE = b"x" * (2 << 20) + b"\n"
# What is written where, how it is refused, and what the log says of it.
WRITES = {
    "no JSON": ("t/0/append.jsonl", b"nothing\n", "Invalid argument", "append.jsonl"),
    "a field that is not known": ("t/0/append.jsonl", b'{"value":"a","colour":1}\n', "Invalid argument", "colour"),
    "one bad line of three": (
        "t/0/append.jsonl",
        b'{"value":"a"}\n{"value":\n{"value":"c"}\n',
        "Invalid argument",
        "line",
    ),
    "a record that is too large": ("t/0/append", TOO_LARGE, "Message too long", "1048588"),
    "a key and value that are too large": (
        "t/0/append.kv",
        b"k\t" + TOO_LARGE,
        "Message too long",
        "1048588",
    ),
    "no batch": ("t/0/append.batch", b"\0" * 100 + b"\n", "Invalid argument", "append.batch"),
    "a setting that is not known": ("t/config", b"colour=blue\n", "Invalid argument", "colour"),
    "a setting without sense": ("t/config", b"retention.ms=soon\n", "Invalid argument", "retention.ms"),
    "a good and a bad setting": (
        "t/config",
        b"segment.bytes=5000\nretention.ms=x\n",
        "Invalid argument",
        "retention.ms",
    ),
    "a start after the end": ("t/0/log-start-offset", b"99\n", "Invalid argument", "99"),
    "a start that is no number": ("t/0/log-start-offset", b"some\n", "Invalid argument", "some"),
}
# Paths that cannot be opened, in a writable mount and in a read-only one.
OPENS = {
    "values": ("t/0/values", "Operation not permitted"),
    "record": ("t/0/offset/0", "Operation not permitted"),
    "segment": ("t/0/segments/00000000000000000000.log", "Operation not permitted"),
    "info": ("t/0/info", "Operation not permitted"),
    "new file": ("t/0/new", "Operation not permitted"),
    "new file in the root": ("new", "Operation not permitted"),
    "the brokers' own topic": ("__consumer_offsets/0/append", "Operation not permitted"),
}
# Other things that are refused: what says so, its exit code, and a mount's option if it needs one.
COMMANDS = {
    "rm t/0/values": ("rm: cannot remove 't/0/values': Operation not permitted", 1),
    "rm -rf t/0/offset": ("rm: cannot remove 't/0/offset/0': Operation not permitted", 1),
    "mv t/0/values t/0/other": ("mv: cannot move 't/0/values' to 't/0/other': Operation not permitted", 1),
    "mv t u": ("mv: cannot move 't' to 'u': Operation not permitted", 1),
    "ln t/0/values t/0/other": (
        "ln: failed to create hard link 't/0/other' => 't/0/values': Operation not permitted",
        1,
    ),
    "ln -s values t/0/other": ("ln: failed to create symbolic link 't/0/other': Operation not permitted", 1),
    "chmod 777 t/0/values": ("chmod: changing permissions of 't/0/values': Operation not permitted", 1),
    "chown 1 t/0": ("chown: changing ownership of 't/0': Operation not permitted", 1),
    "touch t/0/values": ("touch: cannot touch 't/0/values': Operation not permitted", 1),
    "touch t/0/new": ("touch: cannot touch 't/0/new': Operation not permitted", 1),
    "truncate -s 0 t/0/values": ("truncate: cannot open 't/0/values' for writing: Operation not permitted", 1),
    "truncate -s 5 t/0/append": ("truncate: failed to truncate 't/0/append' at 5 bytes: Operation not permitted", 1),
    "mkdir t/0/new": ("mkdir: cannot create directory 't/0/new': Operation not permitted", 1),
    "mkdir t/7": ("mkdir: cannot create directory 't/7': Invalid argument", 1),
    "mkdir t/0": ("mkdir: cannot create directory 't/0': File exists", 1),
    "mkdir 'bad name'": ("mkdir: cannot create directory 'bad name': Invalid argument", 1),
    "mkdir a_b a.b": ("mkdir: cannot create directory 'a.b': Invalid argument", 1),
    "rmdir t": ("rmdir: failed to remove 't': Operation not permitted", 1),
    "rmdir t/0": ("rmdir: failed to remove 't/0': Operation not permitted", 1),
    "mkfifo t/0/pipe": ("mkfifo: cannot create fifo 't/0/pipe': Operation not permitted", 1),
    "sed -i s/a/b/ t/0/values": ("sed: couldn't open temporary file t/0/", 4),
    "setfattr -n user.kafka.key -v x t/0/offset/0": ("setfattr: t/0/offset/0: Operation not permitted", 1),
    "cat t/0/offset/99": ("cat: t/0/offset/99: No such file or directory", 1),
    "cat t/0/offset/first": ("cat: t/0/offset/first: No such file or directory", 1),
    "cat t/0/by-time/noon": ("cat: t/0/by-time/noon: No such file or directory", 1),
    "cat t/0/by-time/20240229": ("cat: t/0/by-time/20240229: No such file or directory", 1),
    "cat by-time/1795263752": ("cat: by-time/1795263752: No such file or directory", 1),
    "cat t/0/by-time/2100-01-01": ("cat: t/0/by-time/2100-01-01: No such file or directory", 1),
    "ls t/1": ("ls: cannot access 't/1': No such file or directory", 2),
    "cat t/0": ("cat: t/0: Is a directory", 1),
}
# What only a flush can refuse reaches programs; builtins of shells do not hear of it.
UNFINISHED = {
    "cat": ("cat {input} >> {path}", "cat: write error: Invalid argument", 1),
    "cp": ("cp {input} {path}", "cp: failed to close '{path}': Invalid argument", 1),
    "dd": ("dd if={input} of={path} status=none", "dd: closing output file '{path}': Invalid argument", 1),
    "tee": ("tee -a {path} < {input} >/dev/null", "tee: {path}: Invalid argument", 1),
    "python": (PYTHON + " {input} {path}", "OSError: [Errno 22] Invalid argument", 1),
    "bash": ("printf nothing >> {path}", "", 0),
}


# A shell's words have no NULs, and bash writes line by line.
ONLY_WHOLE = {what for what, (_, data, _, _) in WRITES.items() if data.count(b"\n") > 1}
ONLY_BYTES = {what for what, (_, data, _, _) in WRITES.items() if b"\0" in data}


@pytest.fixture(scope="module")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Mounted]]:
    """A store that is written, and the same as somebody else sees it."""
    directory = tmp_path_factory.mktemp("refusals")
    with store_mounting(directory) as mount:
        writer = mount(directory / "store", at="rw")
        done = writer.run("mkdir t __consumer_offsets; echo one >> t/0/append; cat t/0/values")
        assert (done.stdout, done.stderr) == ("one\n", "")
        yield {"rw": writer, "ro": mount(directory / "store", "-o", "ro", at="ro")}


@pytest.fixture
def mounted(mounts: dict[str, Mounted]) -> Iterator[Mounted]:
    """The one that is written, in which nothing may have changed at the end."""
    served = mounts["rw"]
    look = "cat t/config t/0/records.jsonl t/0/log-start-offset __consumer_offsets/0/records.jsonl; ls -R t | wc -l"
    before = served.run(look)
    yield served
    assert served.run(look).stdout == before.stdout
    assert "Traceback" not in served.said()


def said(mounted: Mounted, command: str) -> tuple[str, int]:
    done = mounted.run(f"export LC_ALL=C; {command}")
    return done.stderr.strip(), done.returncode


@pytest.mark.parametrize(
    ("writer", "what"),
    [
        (writer, what)
        for writer in WRITERS
        for what in WRITES
        if not (what in ONLY_WHOLE and writer == "bash") and not (what in ONLY_BYTES and writer in {"bash", "dash"})
    ],
)
def test_a_write_is_refused(mounted: Mounted, tmp_path: Path, writer: str, what: str) -> None:
    path, data, reason, sentence = WRITES[what]
    (tmp_path / "input").write_bytes(data)
    command, (words, code), _ = WRITERS[writer]
    before = len(mounted.said())
    found, found_code = said(mounted, command.format(input=tmp_path / "input", path=path))
    assert found.endswith(words.format(path=path, reason=reason, number=NUMBERS[reason]))
    assert found_code == code
    assert sentence in mounted.said()[before:]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_opening_is_refused(
    mounts: dict[str, Mounted], mounted: Mounted, tmp_path: Path, writer: str, mode: str
) -> None:
    (tmp_path / "input").write_bytes(b"data\n")
    command, _, (words, code) = WRITERS[writer]
    opens = list(OPENS.values())
    if mode == "ro":
        opens = [(path, "Read-only file system") for path in ("t/0/append", "t/config", *(path for path, _ in opens))]
    assert mounted is mounts["rw"]
    for path, reason in opens:
        found, found_code = said(mounts[mode], command.format(input=tmp_path / "input", path=path))
        assert words.format(path=path, reason=reason, number=NUMBERS[reason]) in found, path
        assert found_code == code, path


@pytest.mark.parametrize("writer", UNFINISHED)
def test_what_only_a_flush_can_refuse_reaches_programs(mounted: Mounted, tmp_path: Path, writer: str) -> None:
    (tmp_path / "input").write_bytes(b"nothing")
    command, words, code = UNFINISHED[writer]
    found, found_code = said(mounted, command.format(input=tmp_path / "input", path="t/0/append.jsonl"))
    assert found.endswith(words.format(path="t/0/append.jsonl"))
    assert found_code == code
    assert "append.jsonl" in mounted.said()


@pytest.mark.parametrize("command", COMMANDS)
def test_other_changes_are_refused(mounted: Mounted, command: str) -> None:
    words, code = COMMANDS[command]
    found, found_code = said(mounted, command)
    assert words in found
    assert found_code == code
