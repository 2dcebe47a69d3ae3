"""Patterns of a shell in the paths and topics of commands match what a shell matches in a mount."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [*map(str, arguments)], prog_name="kafkafs")
    assert "Traceback" not in result.output
    return result


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*/*/values", ["orders/0/values", "orders/1/values", "payments/0/values"]),
        ("ord*/0/offset/..3.jsonl", ["orders/0/offset/..3.jsonl"]),
        ("pay*/[01]/offset/latest", ["payments/0/offset/latest"]),
        ("orders/?/info", ["orders/0/info", "orders/1/info"]),
        ("orders/0/segments/*.log", [f"orders/0/segments/{0:020}.log"]),
        ("*/config", ["orders/config", "payments/config"]),
        (".kaf*/ver*", [".kafkafs/version"]),
    ],
)
def test_cat_prints_what_matches_in_order(filled_store: Path, pattern: str, paths: list[str]) -> None:
    matching, named = run("cat", filled_store, pattern), run("cat", filled_store, *paths)
    assert (matching.exit_code, named.exit_code) == (0, 0), matching.stderr
    assert matching.stdout_bytes == named.stdout_bytes


def test_a_pattern_without_a_match_does_not_stop_the_others(filled_store: Path) -> None:
    done = run("cat", filled_store, "nothing*/0/values", "orders/0/offset/1")
    assert (done.exit_code, done.stdout) == (1, "x")
    assert "nothing in the store matches nothing*/0/values" in done.stderr


def test_ls_names_what_it_lists_of_several(filled_store: Path) -> None:
    alone = run("ls", filled_store, "orders").stdout.splitlines()
    assert run("ls", filled_store, "ord*").stdout.splitlines() == alone
    both = run("ls", filled_store, "*s").stdout.splitlines()
    assert both == ["/orders/0", "/orders/1", "/orders/config", "/payments/0", "/payments/config"]
    rows = run("ls", filled_store, "*s", "--csv").stdout.splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == both
    assert run("ls", filled_store, "*/9").exit_code == 1


def test_stats_counts_the_topics_that_match(filled_store: Path) -> None:
    rows = run("stats", filled_store, "ord*", "--csv").stdout.splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["orders", "orders"]
    assert run("stats", filled_store, "x*").exit_code == 1
