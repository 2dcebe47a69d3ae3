"""Every example of the page on semantics does what stands there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from mounts import require_fuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Example
    from consoles import Console

# A mount that another worker looks at just then cannot be taken away.
pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("mount")]

NEEDED = ("bash", "jq")


def a_brokers_log_dir(data: Path, path: Path) -> None:
    """A log dir as a real broker left it, with its metadata log and one of its partitions."""
    path.mkdir()
    for file in data.iterdir():
        if file.is_file():
            shutil.copy2(file, path)
    for name in ("__cluster_metadata-0", "t-txn-0"):
        shutil.copytree(data / name, path / name)


def test_each_example_prints_what_the_page_says(
    console: Console,
    page: Callable[[str], str],
    examples_of: Callable[[str], Iterator[Example]],
    datasets: Callable[[str], Path],
) -> None:
    require_fuse()
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}")
    a_brokers_log_dir(datasets("kafka-3.9") / "kafka-3.9" / "d1", console.directory / "broker")
    examples = list(examples_of(page("semantics")))
    assert examples
    for example in examples:
        printed = console.run(example.command)
        assert console.expects(example.output).fullmatch(printed), (
            f"line {example.line}: {example.command} prints\n{printed}\nand not\n{example.output}"
        )
