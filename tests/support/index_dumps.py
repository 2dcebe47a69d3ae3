"""The indexes and producer snapshots of the data sets, what the real tool printed for each, and what we print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

SANITY = "--index-sanity-check"
PRINTED = re.compile(r".*\.(?:index|timeindex|txnindex|snapshot)(\.sanity)?\.txt")


class Case(NamedTuple):
    path: Path
    options: list[str]
    real: str  # without the line that names the file
    is_death: bool


def cases(root: Path) -> Iterator[Case]:
    for printed in sorted(root.rglob("*.txt")):
        name = PRINTED.fullmatch(printed.name)
        if name is None:
            continue
        directories = [part.removesuffix(".dump") for part in printed.parent.relative_to(root).parts]
        path = root.joinpath(*directories, printed.name.removesuffix(".txt").removesuffix(".sanity"))
        is_death = Path(f"{printed}.CRASH").exists()
        yield Case(path, [SANITY] if name[1] else [], printed.read_text(), is_death)


def dump(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["dump", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def blocks(report: str) -> list[list[str]]:
    """Each file's mismatches of one kind, without the path."""
    found: list[list[str]] = []
    for line in report.splitlines():
        if not line.startswith((" ", "Indexed offset")):
            found.append([])
        found[-1].append(line.partition(":/")[0])
    return sorted(found)
