"""The scripts are bash that parses, run as they stand, and are the ones that the README names."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
BASH = "#!/usr/bin/env bash\n"
COMMANDS = sorted(
    path for path in [*SCRIPTS.iterdir(), ROOT / ".ci" / "run"] if path.is_file() and not path.suffix.strip(".")
)
SOURCED = sorted(SCRIPTS.glob("*.sh"))


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.name)
def test_commands_can_be_run(path: Path) -> None:
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/usr/bin/env ")


@pytest.mark.parametrize(
    "path", [*SOURCED, *(path for path in COMMANDS if path.read_text().startswith(BASH))], ids=lambda path: path.name
)
def test_bash_parses(path: Path) -> None:
    checked = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("path", SOURCED, ids=lambda path: path.name)
def test_what_is_sourced_is_not_executable(path: Path) -> None:
    assert not os.access(path, os.X_OK)


def test_the_readme_names_two_commands_that_exist() -> None:
    section = re.search(r"^## Two commands\n(.*?)^## ", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    commands = re.findall(r"^\./scripts/.*$", section[1], re.MULTILINE)
    assert commands == ["./scripts/kafkafs demo", "./scripts/test"]


def test_every_requirement_is_locked() -> None:
    """What a set-up installs is decided by constraints.txt alone, down to the requirements of requirements."""
    lines = (SCRIPTS / "constraints.txt").read_text().splitlines()
    locked = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    asked = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    asked += [requirement for extra in ("fuse", "arrow", "dev") for requirement in extras[extra]]
    assert _with_what_they_require(asked) - {"kafkafs"} <= locked


def _with_what_they_require(requirements: list[str]) -> set[str]:
    """The names of the requirements and of all that they require here, as far as it is installed."""
    names: set[str] = set()
    queue = [Requirement(text) for text in requirements]
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        if name in names or not (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            continue
        names.add(name)
        try:
            queue += map(Requirement, metadata.requires(name) or [])
        except metadata.PackageNotFoundError:
            continue
    return names
