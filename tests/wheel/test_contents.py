"""The wheel holds the packages with all that belongs to them and nothing else, and says what they require."""

from __future__ import annotations

import configparser
import tomllib
from email import message_from_bytes
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
REGISTRATION = PurePosixPath("kafkafs/spark/registration")
SHIPPED = {".py", ".pyi", ".pxd", ".pyx", ".h", ".md", ".json", ".typed"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[PurePosixPath]:
    with ZipFile(wheel) as opened:
        return [PurePosixPath(name) for name in opened.namelist()]


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> dict[str, bytes]:
    """The files beside the packages, by their names."""
    with ZipFile(wheel) as opened:
        prefix = f"kafkafs-{PROJECT['version']}.dist-info/"
        return {name.removeprefix(prefix): opened.read(name) for name in opened.namelist() if name.startswith(prefix)}


def sources() -> Iterator[PurePosixPath]:
    """The files of the checkout that are shipped, by where they are installed."""
    for package in ("storage", "kafkafs"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and (path.suffix in SHIPPED or path.name == "py.typed"):
                name = PurePosixPath(path.relative_to(ROOT))
                yield name.relative_to(REGISTRATION) if name.is_relative_to(REGISTRATION) else name


def test_it_holds_every_source_and_compiled_module_and_nothing_else(names: list[PurePosixPath]) -> None:
    shipped = [name for name in names if not name.parts[0].endswith(".dist-info")]
    compiled = {name for name in shipped if name.suffix == ".so"}
    assert sorted(set(shipped) - compiled) == sorted(sources())
    modules = {name.with_suffix("") for name in sources() if name.suffix == ".pyx"}
    assert modules
    assert {name.with_name(name.name.partition(".")[0]) for name in compiled} == modules
    assert len(compiled) == len(modules)


def test_it_installs_the_two_commands(metadata: dict[str, bytes]) -> None:
    entry_points = configparser.ConfigParser()
    entry_points.read_string(metadata["entry_points.txt"].decode())
    assert entry_points.sections() == ["console_scripts"]
    assert dict(entry_points["console_scripts"]) == PROJECT["scripts"]


def test_it_requires_what_the_project_requires(metadata: dict[str, bytes]) -> None:
    said = message_from_bytes(metadata["METADATA"])
    assert (said["Name"], said["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert said["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert said.get_payload(decode=True) == (ROOT / "README.md").read_bytes()
    optional = PROJECT["optional-dependencies"]
    assert sorted(said.get_all("Provides-Extra", [])) == sorted(optional)
    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    wanted += [Requirement(f'{text}; extra == "{extra}"') for extra in optional for text in optional[extra]]
    assert sorted(map(str, map(Requirement, said.get_all("Requires-Dist", [])))) == sorted(map(str, wanted))
