"""A shell that types what stands in the examples of a page or of a command's help."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from kafkafs.mount.mountpoints.mounts import mounts
from kafkafs.mount.process import log_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DEADLINE_S: Final = 60
_MARK: Final = "-- the command has ended --"

PLACEHOLDERS: Final = {
    "<time>": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z",
    "<run>": r"[0-9]{8}T[0-9]{6}\.[0-9]{3}Z",
    "<number>": r"[0-9]+(?:\.[0-9]+)?",
    "<milliseconds>": r"[0-9]{13}",
    "<duration>": r"[0-9]+ [a-z]+(?: [0-9]+ [a-z]+)?",
    "<process>": r"[0-9]+",
    "<checksum>": r"[0-9a-f]{8}",
    "<id>": r"[A-Za-z0-9_-]{22}",
    "<here>": None,  # the directory that the page begins in
}
"""What stands in an example for what is another each time."""


class Console:
    """A bash in an empty directory, whose output and errors are one, as on a terminal."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self.directory = directory
        # Its own state and cache, and the messages of the C locale.
        told = {"HOME": str(programs), "LC_ALL": "C", "PATH": f"{programs}:{os.environ['PATH']}", "TZ": "UTC"}
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "KAFKAFS_"))}
        # Its commands come by another way than its input, which belongs to what it runs.
        reader, writer = os.pipe()
        self._script = f"/dev/fd/{reader}"
        self._commands = os.fdopen(writer, "wb", buffering=0)
        self._shell = subprocess.Popen(
            ["bash", self._script],
            cwd=directory,
            env={**kept, **told},
            pass_fds=[reader],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(reader)

    def run(self, command: str) -> str:
        """Type a command and give what it prints. A last newline counts for nothing, as in a terminal."""
        assert self._shell.stdout is not None
        self._commands.write(f"{command}\necho; echo {shlex.quote(_MARK)}\n".encode())
        timer = threading.Timer(DEADLINE_S, self._shell.kill)
        timer.start()
        lines: list[str] = []
        try:
            for line in self._shell.stdout:
                if line == f"{_MARK}\n".encode():
                    break
                lines.append(line.decode(errors="backslashreplace"))
            else:
                pytest.fail(f"{command!r} ended the shell, or did not end in time: {lines}")
        finally:
            timer.cancel()
        printed = "".join(lines).removesuffix("\n").removesuffix("\n")
        return re.sub(rf"^{self._script}: line [0-9]+: ", "bash: ", printed, flags=re.MULTILINE)  # as typed

    def expects(self, output: str) -> re.Pattern[str]:
        """A pattern of what may be printed where this stands on a page."""
        pattern = re.escape(output.removesuffix("\n"))
        for name, meaning in PLACEHOLDERS.items():
            pattern = pattern.replace(re.escape(name), meaning or re.escape(str(self.directory)))
        return re.compile(pattern)

    def end(self) -> None:
        """Leave neither a shell nor a mount."""
        self._shell.kill()
        self._shell.wait(DEADLINE_S)
        assert self._shell.stdout is not None
        self._shell.stdout.close()
        self._commands.close()
        left = [found.path for found in mounts() if found.path.is_relative_to(self.directory)]
        for path in left:
            command = [sys.executable, "-P", "-m", "kafkafs", "umount", "--force", path]
            subprocess.run(command, stderr=subprocess.DEVNULL, timeout=DEADLINE_S, check=False)
        log = log_file(self.directory)
        if log is not None:
            for each in log.parent.glob(f"{log.stem}-*.log"):
                each.unlink()


@contextmanager
def open_console(path: Path, commands: Mapping[str, str]) -> Iterator[Console]:
    """Open a shell in an empty directory below a path, whose programs of these names run these commands."""
    programs, directory = path / "programs", path / "here"
    programs.mkdir()
    directory.mkdir()
    for name, command in commands.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
    opened = Console(directory, programs)
    try:
        yield opened
    finally:
        opened.end()
