"""Functions fit a screen, files hold one noun, and no module is named after nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
PLACES = ("storage", "kafkafs", "tests", "scripts")
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
NAMES_OF_NOTHING = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
# A def, or a cdef or cpdef that is not a type, a block or a variable: what has parentheses and, at its end, a colon.
CYTHON_FUNCTION = re.compile(r"\s*(?:def|cdef|cpdef)\s+(?!class|struct|union|enum|extern|cppclass)[^=]*?(\w+)\s*\(")

PYTHON = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
CYTHON = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.px[di]"))] + [
    path for place in PLACES for path in sorted((ROOT / place).rglob("*.pyx"))
]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def python_functions(source: str) -> Iterator[tuple[str, int]]:
    """Name and length of each function, from its first decorator to its last line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield node.name, (node.end_lineno or node.lineno) - start + 1


def cython_functions(source: str) -> Iterator[tuple[str, int]]:
    """Name and length of each function, to the last line that is indented deeper than its head."""
    lines = source.splitlines()
    for start, line in enumerate(lines):
        head = CYTHON_FUNCTION.match(line)
        end = _end_of_head(lines, start) if head else None
        if head is None or end is None:
            continue
        depth = len(line) - len(line.lstrip())
        last = end
        for number in range(end + 1, len(lines)):
            if lines[number].strip():
                if len(lines[number]) - len(lines[number].lstrip()) <= depth:
                    break
                last = number
        yield head[1], last - start + 1


def _end_of_head(lines: list[str], start: int) -> int | None:
    """The line on which the parentheses opened on `start` are closed and followed by a colon; None without a colon."""
    depth = 0
    for number in range(start, len(lines)):
        code = lines[number].partition("#")[0].rstrip()
        depth += code.count("(") - code.count(")")
        if depth == 0:
            return number if code.endswith(":") else None
    return None


def too_long(path: Path, functions: Callable[[str], Iterator[tuple[str, int]]]) -> Iterator[str]:
    for name, lines in functions(path.read_text()):
        if lines > FUNCTION_LINES_MAX:
            yield f"{named(path)}: {name} has {lines} lines"


# One test looks at all files, because a test for each takes longer to hand out than to run.
def test_python_functions_fit_a_screen() -> None:
    assert len(PYTHON) > 500
    assert [found for path in PYTHON for found in too_long(path, python_functions)] == []


def test_cython_functions_fit_a_screen() -> None:
    assert len(CYTHON) > 10
    assert [found for path in CYTHON for found in too_long(path, cython_functions)] == []


def test_the_length_of_a_cython_function_is_seen() -> None:
    body = "\n".join(["        x += 1"] * 80)
    source = f"""
cdef class Walker:
    cdef int position
    cdef int size = room(1)

    cdef inline int step(
        self, const unsigned char* data,
    ) except -1 nogil:
{body}

    def close(self) -> None:
        pass
"""
    assert dict(cython_functions(source)) == {"step": 83, "close": 2}


def test_files_hold_one_noun() -> None:
    for path in [*PYTHON, *CYTHON]:
        assert len(path.read_text().splitlines()) <= FILE_LINES_MAX, named(path)
        assert path.stem not in NAMES_OF_NOTHING, named(path)
        assert path.parent.name not in NAMES_OF_NOTHING, named(path)
