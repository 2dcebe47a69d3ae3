"""Nothing is dead: every module is reached from an entry point, and the product itself uses every function.

A test's use is no use. What users call is exempt: `storage.testing`, and the public methods of the library's types.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import kafkafs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Module

ROOT = Path(__file__).parents[2]
ENTRIES = {
    "storage",
    "storage.internal",
    "storage.internal.control",
    "storage.record",
    "storage.record.columns",
    "kafkafs",
    "kafkafs.__main__",
    "kafkafs.cli",
    "kafkafs.cli.mount_helper",
    "kafkafs.spark.registration.pyspark_kafkafs",
    "kafkafs.locator.descent",
    "kafkafs.render.intake",
    "kafkafs.render.kcat_format",
    "kafkafs.render.packing",
    "kafkafs.render.record_renderer",
}
FOR_TESTS = "storage.testing"
USED_BY_TESTS_ALONE = {
    "crc32c_portable",  # what crc32c does on processors without the instruction, which no test machine is
}
WORD = re.compile(r"[A-Za-z_]\w*")
CYTHON_HEAD = re.compile(r"^\s*(?:def|cdef|cpdef)\s+(?!class|struct|union|enum|extern)[^=\n]*?(\w+)\s*\(", re.MULTILINE)


def test_every_module_is_reached(product: list[Module]) -> None:
    known = {module.name for module in product}
    reached: set[str] = set()
    queue = sorted(ENTRIES & known)
    while queue:
        name = queue.pop()
        if name in reached:
            continue
        reached.add(name)
        for module in product:
            if module.name == name:
                named = {*module.imports(), *_strings(module.tree)}
                queue += [part for each in named for part in _with_parents(each) if part in known]
    dead = sorted(name for name in known - reached if not name.startswith(FOR_TESTS))
    assert not dead, f"never imported: {', '.join(dead)}"


def _strings(tree: ast.AST) -> Iterator[str]:
    """Strings in the code: the names in tables from which modules and commands are imported are among them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _with_parents(name: str) -> Iterator[str]:
    """A dotted name and all packages that it is in: importing it loads them."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def test_every_function_is_used(product: list[Module]) -> None:
    defined = {name for module in product if not module.name.startswith(FOR_TESTS) for name in _functions(module)}
    scripts = [path for path in (ROOT / "scripts").rglob("*") if _is_python(path)]
    used = {word for path in (*(module.path for module in product), *scripts) for word in _words(path)}
    unused = defined - used
    assert unused >= USED_BY_TESTS_ALONE, "the product uses these"
    dead = sorted(unused - USED_BY_TESTS_ALONE - set(_methods_of_library()))
    assert not dead, f"never used: {', '.join(dead)}"


def _methods_of_library() -> Iterator[str]:
    for name in kafkafs.__all__:
        given = getattr(kafkafs, name)
        if isinstance(given, type) and given.__module__.startswith("kafkafs.library."):
            yield from (method for method in vars(given) if not method.startswith("_"))


def _is_python(path: Path) -> bool:
    if not path.is_file() or "__pycache__" in path.parts:
        return False
    return path.suffix == ".py" or (not path.suffix and path.read_bytes()[:40].startswith(b"#!/usr/bin/env python3"))


def _functions(module: Module) -> Iterator[str]:
    """The functions and methods that somebody has to name; Python, or a foreign base class, calls the others."""
    if module.path.suffix != ".py":
        yield from (name for name in CYTHON_HEAD.findall(module.source) if not name.startswith("__"))
        return
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Module | ast.ClassDef):
            continue
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) not in _OURS for base in node.bases):
            continue
        for child in node.body:
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or child.name.startswith("__"):
                continue
            # A command is called by the name that it is registered under.
            if not any(".command(" in ast.unparse(decorator) for decorator in child.decorator_list):
                yield child.name


# Bases that call nothing of the classes made from them.
_OURS = {"Exception", "StorageError", "CorruptBatchError", "NamedTuple", "Protocol", "enum.IntEnum", "enum.Enum"}


def _words(path: Path) -> Iterator[str]:
    """The names that a file uses. Neither a definition nor what a package offers is a use."""
    source = path.read_text()
    if path.suffix in {".pyx", ".pxd"}:
        code = re.sub(r'""".*?"""|#[^\n]*', "", source, flags=re.DOTALL)
        heads = Counter(CYTHON_HEAD.findall(code))
        yield from (Counter(WORD.findall(code)) - heads).elements()
        return
    tree = ast.parse(source)
    offered = {id(part) for node in tree.body if _is_offer(node) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in offered:
            continue
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias) and (node.asname or path.name != "__init__.py"):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def _is_offer(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
