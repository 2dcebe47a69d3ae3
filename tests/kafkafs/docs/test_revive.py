"""Every command of the page on reviving does what stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Example
    from consoles import Console


def test_each_example_prints_what_the_page_says(
    console: Console, page: Callable[[str], str], examples_of: Callable[[str], Iterator[Example]]
) -> None:
    for example in examples_of(page("revive")):
        printed = console.run(example.command)
        assert console.expects(example.output).fullmatch(printed), (
            f"line {example.line}: {example.command} prints\n{printed}\nand not\n{example.output}"
        )
