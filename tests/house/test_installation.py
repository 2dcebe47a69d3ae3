"""The packages under test are the ones meant, and they are installed with all that belongs to them."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import kafkafs
import storage
from storage.internal.definitions import table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("package", [storage, kafkafs], ids=lambda package: package.__name__)
def test_the_package_under_test_is_the_one_meant(package: object) -> None:
    """Tests of the checkout must not import a wheel; tests/wheel looks at what one installs."""
    assert isinstance(package.__file__, str)
    assert Path(package.__file__).parents[1] == ROOT


@pytest.mark.parametrize("package", ["storage", "kafkafs"])
def test_the_package_says_that_it_is_typed(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()


def test_each_compiled_module_has_its_types_beside_it() -> None:
    names = {Path(entry.name).name for entry in files("storage.record.kernel").iterdir()}
    compiled = {name.partition(".")[0] for name in names if name.endswith(".so")}
    assert compiled
    assert {f"{name}.pyi" for name in compiled} <= names


def test_the_tables_of_internal_topics_are_installed() -> None:
    assert len(table("offsets")) > 0
    assert len(table("metadata")) > 0


def test_what_is_optional_is_imported_only_when_used() -> None:
    """`kafkafs` starts fast, and works where neither FUSE nor Arrow nor Spark is installed."""
    statement = (
        "import sys, kafkafs.cli, storage, storage.record;"
        "print([name for name in ('pyfuse3', 'trio', 'pyarrow', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", statement], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("command", "unused"),
    [
        ("dump", ("storage.cleanup", "storage.config", "storage.log", "storage.log_dir", "storage.store")),
        ("cat", ("storage.cleanup", "storage.rewrite", "storage.verify", "importlib.resources", "tempfile")),
        ("ls", ("storage.cleanup", "storage.rewrite", "storage.verify", "importlib.resources", "tempfile")),
    ],
)
def test_a_command_loads_only_rooms_that_it_uses(command: str, unused: tuple[str, ...]) -> None:
    """Each room takes milliseconds of every start."""
    statement = f"import sys, kafkafs.cli.{command}; print([name for name in {unused} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", statement], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
