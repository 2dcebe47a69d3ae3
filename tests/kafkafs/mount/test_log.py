"""The log of a mount: who may read its file, and what its lines show."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

from kafkafs.mount.log import make_directory, opened

if TYPE_CHECKING:
    from pathlib import Path

ROTATING = """
import logging, sys
from pathlib import Path
from kafkafs.mount.log import StandardErrorFile, opened
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
