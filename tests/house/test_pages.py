"""The README and the pages can be read in a terminal, and what they refer to is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted(ROOT.glob("*/docs/*.md"))]
DRAWING: Final = ROOT / "scripts" / "pictures" / "parts.svg"
COLUMNS_MAX: Final = 100


def prose(page: str) -> Iterator[str]:
    """The lines of a page that can be wrapped: not those of tables and of code."""
    fenced = False
    for line in page.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("|", "    ")):
            yield line


def can_be_wrapped(line: str) -> bool:
    """Whether the line has a blank to break at, outside of code."""
    return " " in re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "code", line).removeprefix("- ").strip()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_prose_is_wrapped(path: Path) -> None:
    assert not [line for line in prose(path.read_text()) if len(line) > COLUMNS_MAX and can_be_wrapped(line)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_to_what_is_there(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    assert not [link for link in links if "://" not in link and not (path.parent / link).exists()]


def test_the_drawing_names_rooms_that_are_there() -> None:
    rooms = re.findall(r"\b(?:storage|kafkafs)/[a-z_]+", DRAWING.read_text())
    assert len(rooms) > 10
    assert not [room for room in rooms if not (ROOT / room / "__init__.py").exists()]
