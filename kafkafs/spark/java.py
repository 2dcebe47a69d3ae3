"""The Java that Spark runs on, looked at before Spark is started, which says less clearly what is wrong with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkafs.spark.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_PATIENCE_S: Final = 30


def check_java(environment: Mapping[str, str]) -> None:
    """Raise `JobError` if there is no Java that Spark runs on."""
    home = environment.get("JAVA_HOME")
    program = shutil.which(str(Path(home, "bin", "java")) if home else "java", path=environment.get("PATH"))
    if program is None:
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
        raise JobError(f"Spark needs Java {VERSION_MIN} or newer, and there is none {where}")
    try:
        said = subprocess.run(  # noqa: S603 -- it is what Spark is about to run
            [program, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JobError(f"Spark needs Java {VERSION_MIN} or newer, and {program} does not run: {error}") from None
    match = _VERSION.search(said.stderr)
    if match is None or int(match[1]) < VERSION_MIN:
        version = "another program" if match is None else f"version {match[1]}"
        raise JobError(f"Spark needs Java {VERSION_MIN} or newer, and {program} is {version}: set JAVA_HOME to it")
