"""What is installed is found where it was installed, whole, and imports what is optional only when it is used."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("storage", "kafkafs", "pyspark_kafkafs")


def said(programs: Path, statement: str) -> object:
    """Return what a statement prints, as JSON, in the environment of the wheel."""
    command = [programs / "python", "-P", "-W", "error", "-c", f"import json\n{statement}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_that_of_the_wheel(programs: Path, package: str) -> None:
    """Nothing of the checkout is imported in its place."""
    place = said(programs, f"import {package}; print(json.dumps({package}.__file__))")
    assert isinstance(place, str)
    assert Path(place).is_relative_to(programs.parent)


@pytest.mark.parametrize("name", ["kafkafs", "mount.kafkafs"])
def test_the_program_is_installed_and_runs(programs: Path, name: str, tmp_path: Path) -> None:
    done = subprocess.run([programs / name, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")


def test_the_version_is_that_of_the_project(programs: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    statement = "import kafkafs; from importlib.metadata import version"
    assert said(programs, f"{statement}; print(json.dumps([kafkafs.__version__, version('kafkafs')]))") == [version] * 2


def test_every_compiled_module_and_every_page_can_be_used(programs: Path) -> None:
    kernel = sorted(path.stem for path in (ROOT / "storage" / "record" / "kernel").glob("*.pyx"))
    statement = """
from importlib import import_module
from importlib.resources import files
from storage.internal.definitions import table
print(json.dumps([
    [import_module(f"storage.record.kernel.{name}").__name__.rpartition(".")[2] for name in KERNEL],
    [len(table(name)) > 0 for name in ("offsets", "metadata")],
    [bool(files("kafkafs").joinpath("docs", f"{name}.md").read_text()) for name in ("semantics", "cli")],
]))"""
    assert said(programs, f"KERNEL = {kernel!r}{statement}") == [kernel, [True, True], [True, True]]


def test_what_is_optional_is_imported_only_when_used(programs: Path) -> None:
    statement = "import sys, kafkafs.cli, storage, storage.record"
    optional = "('pyfuse3', 'trio', 'pyarrow', 'pyspark')"
    assert said(programs, f"{statement}; print(json.dumps([name for name in {optional} if name in sys.modules]))") == []
