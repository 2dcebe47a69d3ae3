"""`kafkafs tail` prints what GNU's tail prints of the same values, and what `kafkafs find` finds."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


def run(command: str, *arguments: object) -> Result:
    result = CliRunner().invoke(main, [command, *map(str, arguments)], prog_name="kafkafs")
    assert "Traceback" not in result.output
    return result


def ended(*arguments: object) -> Result:
    """What is printed without following."""
    return run("tail", *arguments, "--no-follow")


@pytest.mark.parametrize("number", ["0", "1", "3", "20", "99", "+0", "+1", "+15", "+99"])
def test_it_begins_where_tail_does(filled_store: Path, tmp_path: Path, number: str) -> None:
    values = tmp_path / "values"
    values.write_bytes(run("cat", filled_store, "orders/0/values").stdout_bytes)
    judge = subprocess.run(["tail", "-n", number, values], capture_output=True, check=True)
    printed = ended(filled_store, "orders/0/values", "-n", number)
    assert (printed.exit_code, printed.stdout_bytes) == (0, judge.stdout)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["orders/0/values"], ["x" * 18, "x" * 19]),
        (["orders/0/keys"], ["k0", "k1"]),
        (["orders/0/records.jsonl"], None),
        (["orders/0"], None),
        (["/orders/"], None),
        (["ord*/0"], None),
        (["o[qr]d*/?/keys", "payments/0/values"], ["k0", "k1", "of 1", "of 2"]),
        (["*/0/keys", "orders/0/keys"], ["k0", "k1", "", ""]),
    ],
)
def test_paths_and_patterns(filled_store: Path, paths: list[str], expected: list[str] | None) -> None:
    if expected is None:
        expected = run("cat", filled_store, "orders/0/offset/last-2...jsonl").stdout.splitlines()
    printed = ended(filled_store, *paths, "-n", 2)
    assert (printed.exit_code, printed.stdout.splitlines()) == (0, expected), printed.stderr


@pytest.mark.golden
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_all_of_a_brokers_store_is_what_find_finds(datasets: Callable[[str], Path], isolation: str) -> None:
    data_set = datasets("kafka-3.9") / "kafka-3.9"
    store = ",".join(str(data_set / log_dir) for log_dir in ("d1", "d2"))
    for criteria in ([], ["--grep", "zeta"], ["--null-value"], ["--transactional"], ["--min-bytes", "200"]):
        found = run("find", store, *criteria, "--isolation", isolation)
        printed = ended(store, "/", "-n", "+1", *criteria, "--isolation", isolation)
        assert printed.stdout == found.stdout
        assert (printed.exit_code, printed.stderr) == (found.exit_code, found.stderr)


def test_the_last_that_match_and_those_from_a_time(filled_store: Path) -> None:
    criteria = ["--key", "k1", "--max-bytes", "12"]
    assert ended(filled_store, "orders", *criteria, "-n", 2, "-F", "%o ").stdout == "7 10 "
    since = ["--from", "2023-11-14T22:13:30.5Z"]
    assert ended(filled_store, "orders", *since).stdout == run("find", filled_store, "orders", *since).stdout
    assert ended(filled_store, "orders", "--from", "now").stdout == ""
    assert ended(filled_store, "payments/0/values", "--isolation", "read_committed").stdout == "of 1\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["none"], 1, "nothing in the store matches none"),
        (["orders/9", "orders/0/values"], 1, "nothing in the store matches orders/9"),
        (["no*/*/values"], 1, "nothing in the store matches no*/*/values"),
        (["orders", "--key", "none"], 1, ""),
        (["orders/0/info"], 2, "'orders/0/info' is not what grows by records; there are TOPIC"),
        (["orders/0/offset/latest"], 2, "is not what grows by records"),
        (["orders/0/none"], 2, "'none' is not in a partition"),
        (["orders/*/none"], 2, "'none' is not in a partition"),
        ([".kafkafs/log"], 2, "is not what grows by records"),
        (["orders", "-n", "-3"], 2, "'-3' is neither a number of records, nor a + with one"),
        (["orders", "-n", "3", "--from", "now"], 2, "--from and --lines exclude each other"),
        (["orders", "--from", "5"], 2, "Invalid value for '--from'"),
        ([], 2, "Missing argument 'PATH...'"),
    ],
)
def test_wrong_uses(filled_store: Path, arguments: list[str], code: int, sentence: str) -> None:
    printed = ended(filled_store, *arguments)
    assert printed.exit_code == code
    assert sentence in printed.stderr


def test_a_habit_of_gnus_tail_is_explained(filled_store: Path) -> None:
    printed = run("tail", "-F", filled_store, "orders")
    assert printed.exit_code == 2
    assert "is a format without a token such as %s; to follow, leave -F out" in printed.stderr
    assert run("tail", "-f", filled_store, "orders/0/keys", "-n", 1, "--no-follow").stdout == "k1\n"


def test_damage_ends_its_log_alone(damaged_store: Path) -> None:
    printed = ended(damaged_store, "*/0", "-n", "+9", "-F", "%t %o\\n", "--isolation", "read_uncommitted")
    assert printed.exit_code == 3
    assert printed.stdout.splitlines() == ["orders 8", "orders 9"]
    assert printed.stderr.count("\n") == 1
    assert ended(damaged_store, "orders/0/keys", "-n", 1).stdout == "k1\n", "which lies after it"
