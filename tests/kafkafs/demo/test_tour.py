"""The tour has shell commands, for paths of any name, and is the one that the README shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from kafkafs.demo.tour import mount_tour, store_tour, tour_text

ROOT = Path(__file__).parents[3]
ODD = Path("the demo's/store")


def words(command: str) -> list[str]:
    return list(shlex.shlex(command, posix=True, punctuation_chars=True))


def test_places_are_quoted() -> None:
    for stop in [*store_tour("'./the launcher'", ODD), *mount_tour("'./the launcher'", ODD, ODD.with_name("mnt"))]:
        assert any(word.startswith("the demo's/") for word in words(stop.command)), stop
        assert "the launcher" not in stop.command or "./the launcher" in words(stop.command)


def test_what_it_shows_stands_above_each_command() -> None:
    tour = mount_tour("kafkafs", Path("store"), Path("mnt"))
    lines = tour_text(tour).splitlines()
    assert lines[::2] == [stop.shows for stop in tour]
    assert lines[1::2] == [f"  {stop.command}" for stop in tour]
    assert len({stop.shows for stop in tour}) == len(tour)
    assert max(map(len, lines)) <= 80


def test_the_readme_shows_the_tour() -> None:
    records_data = re.search(r"^## Two commands\n(.*?)^## ", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert records_data is not None
    shown = re.search(r"Try:\n\n(.*?)^```", records_data[1], re.MULTILINE | re.DOTALL)
    assert shown is not None
    lines = shown[1].splitlines()
    tour = mount_tour("./scripts/kafkafs", Path("kafkafs-demo/store"), Path("kafkafs-demo/mnt"))
    pairs = [(stop.shows, f"  {stop.command}") for stop in tour]
    assert [pair for pair in pairs if pair[0] in lines] == list(zip(lines[::2], lines[1::2], strict=True))
