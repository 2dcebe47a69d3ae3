"""The product's source as the tests of the house look at it: its modules and what each imports."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CYTHON_IMPORT = re.compile(r"^[ \t]*(?:from\s+\S+\s+)?c?import\s+(?:\([^)]*\)|[^\n]*)", re.MULTILINE)


@dataclass(frozen=True)
class Module:
    """A source file of the product; the .pyx and the .pxd of a compiled module are two of one name."""

    name: str
    path: Path

    @cached_property
    def source(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax of a Python file; of a Cython file its import statements."""
        if self.path.suffix == ".py":
            return ast.parse(self.source)
        statements = (match[0].strip() for match in CYTHON_IMPORT.finditer(self.source))
        return ast.parse("\n".join(re.sub(r"\bcimport\b", "import", statement) for statement in statements))

    def imports(self, *, when_loaded: bool = False) -> Iterator[str]:
        """The dotted names imported anywhere in the file, or by loading it alone: `a.b` for `from a import b`."""
        for node in _run_by_loading(self.tree) if when_loaded else ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{self._origin(node)}.{alias.name}" for alias in node.names)

    def _origin(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        package = self.name.split(".") if self.path.stem == "__init__" else self.name.split(".")[:-1]
        above = package[: len(package) - statement.level + 1]
        return ".".join([*above, *([statement.module] if statement.module else [])])


def _run_by_loading(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one that run when the module is loaded: none in functions or for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _run_by_loading(child)


@pytest.fixture(scope="session")
def product() -> list[Module]:
    """Every module of the product."""
    modules = []
    for package in ("storage", "kafkafs"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in {".py", ".pyx", ".pxd"}:
                parts = path.relative_to(ROOT).with_suffix("").parts
                modules.append(Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return modules
