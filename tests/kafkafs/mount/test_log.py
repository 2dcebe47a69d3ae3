"""The log of a mount: who may read its file, and what its lines show."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

from kafkafs.mount.log import make_directory, opened, start_logging

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ROTATING = """
import logging, sys
from pathlib import Path
from kafkafs.mount.log import StandardErrorFile, opened
import logging
import os
path = Path(sys.argv[1])
os.umask(0)
os.dup2(opened(path), 2)
handler = StandardErrorFile(path, 100)
for number in range(20):
    handler.emit(logging.LogRecord("", logging.INFO, "", 0, f"line {number}", (), None))
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_others_read_no_log_before_or_after_it_is_put_aside(tmp_path: Path) -> None:
    make_directory(tmp_path / "kafkafs")
    path = tmp_path / "kafkafs" / "mnt.log"
    subprocess.run([sys.executable, "-P", "-c", ROTATING, path], check=True)
    assert mode_of(tmp_path / "kafkafs") & 0o027 == 0
    for each in (path, path.with_name("mnt.log.1")):
        assert each.read_text().startswith("line ")
        assert mode_of(each) == 0o640


def test_what_an_earlier_version_made_is_closed_to_others(tmp_path: Path) -> None:
    directory, path = tmp_path / "kafkafs", tmp_path / "kafkafs" / "mnt.log"
    directory.mkdir()
    path.write_bytes(b"a line\n")
    directory.chmod(0o755)
    path.chmod(0o644)
    make_directory(directory)
    os.close(opened(path))
    assert (mode_of(directory), mode_of(path), path.read_bytes()) == (0o750, 0o640, b"a line\n")


def test_a_line_has_no_control_characters(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        recent = start_logging()
        logging.getLogger("kafkafs.mount").warning("the value %s is refused", "\x1b[31m\x9b1\nforged")
        try:
            int("\x1b[31m")
        except ValueError as error:
            error.args = ("\x1b[31m",)
            logging.getLogger("kafkafs.mount").exception("a bug")
    finally:
        root.handlers[:], root.level = before
    for text in (recent.text().decode(), capfd.readouterr().err):
        assert r"WARNING the value \u001B[31m\u009B1\nforged is refused" in text
        assert "ValueError: \\u001B[31m\n" in text
        assert not {"\x1b", "\x9b"} & set(text)
