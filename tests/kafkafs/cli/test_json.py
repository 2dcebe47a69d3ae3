"""`--json` is one array of objects in every command that lists something, also where it has nothing to list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner
from command_examples import COMMANDS, OF_SPARK

from kafkafs.cli import main

if TYPE_CHECKING:
    from pathlib import Path

# The words after each command, and how many objects come of them; None for as many as there happen to be. `S` is a
# store, `B` its backups, `E` a store without a topic.
LISTING = {
    "backup": [("S B2", 3), ("S B --plan", 3), ("E B3", 0), ("--check B/latest", 0), ("--check B/damaged", 1)],
    "compact": [("S", None), ("S --dry-run", None), ("S --apply", None), ("E", 0)],
    "diff": [("S S", 3), ("S S pay*", 1), ("S B/latest orders", 2)],
    "dump": [("S/orders-0/00000000000000000000.log", None), ("S/orders-0/00000000000000000000.timeindex", None)],
    "explain": [("S orders/0/offset/5", 1)],
    "groups": [("S", 0), ("E", 0)],
    "ls": [("S", None), ("S orders", 3), ("E", None), ("S orders/1/offset", None)],
    "recover": [("S", None), ("S --apply", None), ("E", None)],
    "report": [("S", None), ("E", None)],
    "retention": [("S", None), ("S --apply", None), ("E", 0)],
    "stats": [("S", 3), ("S pay*", 1), ("E", 0)],
    "top": [("S --once", None), ("E --once", None)],
    "topics config": [("S orders", None)],
    "topics delete": [("S orders", 2), ("S orders --apply", 2)],
    "topics list": [("S", 2), ("S orders", 2), ("E", 0)],
    "warm": [("S", None), ("S orders/0/values", 1)],
}
# Those that print the one plan or account that there is.
OF_ONE = {"revive", "salvage"}


def with_json() -> set[str]:
    return {
        name.removeprefix("kafkafs ")
        for name, command in COMMANDS.items()
        if not name.startswith(OF_SPARK)
        and any(isinstance(each, click.Option) and "--json" in each.opts for each in command.params)
    }


def test_every_command_with_the_option_is_here() -> None:
    assert with_json() == {*LISTING, *OF_ONE}


@pytest.mark.parametrize(
    ("command", "words", "count"), [(name, *case) for name, cases in LISTING.items() for case in cases]
)
def test_it_is_one_array(filled_store: Path, command: str, words: str, count: int | None) -> None:
    places = {"S": filled_store, "B": filled_store.parent / "backups", "E": filled_store.parent / "empty"}
    runner = CliRunner()
    if " E" in f" {words}":
        assert runner.invoke(main, ["topics", "create", str(places["E"]), "t"]).exit_code == 0
        assert runner.invoke(main, ["topics", "delete", str(places["E"]), "t", "--apply"]).exit_code == 0
    if " B/" in f" {words}" or words.endswith("--plan"):
        assert runner.invoke(main, ["backup", *map(str, (places["S"], places["B"]))]).exit_code == 0
        damaged = (places["B"] / "latest").resolve()
        (places["B"] / "damaged").symlink_to(damaged)
        if words.endswith("damaged"):
            (damaged / "meta.properties").write_text("another")
    given = [f"{places[word[0]]}{word[1:]}" if word[0] in places else word for word in words.split()]
    done = runner.invoke(main, [*command.split(), *given, "--json"])
    assert done.exit_code in {0, 1}, done.stderr
    rows = json.loads(done.stdout)
    assert isinstance(rows, list)
    assert all(isinstance(row, dict) for row in rows)
    assert count in {None, len(rows)}
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("[", "]") if rows else lines == ["[]"]
