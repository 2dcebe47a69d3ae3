"""Every example of the page on incidents does what stands there, on the disks of real brokers."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Example
    from consoles import Console

SERVER_PROPERTIES = "log.retention.hours=168\nlog.cleaner.enable=true\n"
DELETED = "t-zstd-0.5f1c3b0a7d3e4b9fa2c1d0e9f8a7b6c5-delete"
STRAY = "t-gzip-0.0a1b2c3d4e5f60718293a4b5c6d7e8f9-stray"


def test_each_example_prints_what_the_page_says(
    console: Console,
    page: Callable[[str], str],
    examples_of: Callable[[str], Iterator[Example]],
    datasets: Callable[[str], Path],
) -> None:
    here = console.directory
    running = datasets("kafka-3.9") / "kafka-3.9"
    for name, source in (
        ("d1", running / "d1"),
        ("d2", running / "d2"),
        ("killed", datasets("kafka-3.9-killed") / "kafka-3.9-killed"),
        ("damaged", datasets("kafka-3.9-recovery") / "kafka-3.9-recovery" / "before"),
    ):
        (here / name).symlink_to(source)
    shutil.copytree(running / "d1", here / "deleted" / "d1")
    (here / "deleted" / "d1" / "t-zstd-0").rename(here / "deleted" / "d1" / DELETED)
    shutil.copytree(running / "d1" / "t-gzip-0", here / "deleted" / "d1" / STRAY)
    shutil.copytree(running / "d2", here / "moved" / "d2")
    (here / "moved" / "d2" / "old-logs").mkdir()
    properties = here / "moved" / "d2" / "meta.properties"
    properties.write_text(re.sub("cluster.id=.*", f"cluster.id={'A' * 22}", properties.read_text()))
    (here / "server.properties").write_text(SERVER_PROPERTIES)
    examples = list(examples_of(page("incidents")))
    assert len(examples) >= 30
    for example in examples:
        printed = console.run(example.command)
        assert console.expects(example.output).fullmatch(printed), (
            f"line {example.line}: {example.command} prints\n{printed}\nand not\n{example.output}"
        )
