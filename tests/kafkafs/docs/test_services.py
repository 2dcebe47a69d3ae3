"""The page on services has the units that are shipped, and what they run, and its line in fstab, do what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_examples import make_stores

from kafkafs.mount.options import parse_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from consoles import Console

UNITS = Path(__file__).parents[3] / "scripts" / "packaging"
FSTAB = re.compile(r"^```fstab\n(.+)\n```$", re.MULTILINE)


def settings_of(unit: Path) -> list[str]:
    """The lines of a unit without what is said about it at its head."""
    lines = unit.read_text().splitlines()
    return lines[next(number for number, line in enumerate(lines) if line.startswith("[")) :]


def run_lines(unit: Path) -> list[str]:
    """The commands of a unit as a shell has them."""
    lines = [line.partition("=")[2] for line in settings_of(unit) if line.startswith("Exec")]
    return [re.sub(r"\$\{(\w+)\}", r'"$\1"', line).replace("$$", "$") for line in lines]


def test_the_page_has_each_unit_as_it_is(page: Callable[[str], str]) -> None:
    blocks = dict(
        re.findall(r"^```ini\n# /etc/systemd/system/(\S+)\n(.*?)\n```$", page("services"), re.MULTILINE | re.DOTALL)
    )
    assert blocks == {
        unit.name: "\n".join(line for line in settings_of(unit) if not line.startswith("#")) for unit in UNITS.iterdir()
    }


def test_what_the_units_run_does_it(console: Console) -> None:
    make_stores(console.directory)
    console.run("export STORE=$PWD/store DEST=$PWD/backups KEEP=1 OPTIONS='--server-properties server.properties'")
    console.run("echo log.retention.ms=1000 > server.properties; kafkafs backup store backups")
    retention, compaction = run_lines(UNITS / "kafkafs-maintenance@.service")
    assert "bytes deleted" in console.run(retention)
    assert console.run(f"{compaction}; echo code $?").splitlines()[-1] == "code 0"
    assert console.run("kafkafs cat store orders/0/info | grep start.offset") == "start.offset=100"
    console.run("kafkafs append store orders/0/append <<< x")
    backup, pruning = run_lines(UNITS / "kafkafs-backup@.service")
    assert console.run(f"{backup} > said; echo code $?") == "code 0"
    counted = "ls backups/runs | wc -l"
    assert console.run(f"{counted}; export EXIT_STATUS=3; {pruning}; {counted}") == "2\n2"
    assert console.run(f"export EXIT_STATUS=0; {pruning}; {counted}") == "1"
    assert console.run("kafkafs cat backups/latest orders/0/values") == "x"


def test_a_run_that_found_damage_prunes_and_fails(console: Console) -> None:
    make_stores(console.directory)
    console.run("export STORE=$PWD/store DEST=$PWD/backups KEEP=1; kafkafs backup store backups")
    console.run("printf 'x' | dd of=store/orders-0/00000000000000000000.log bs=1 seek=100 conv=notrunc status=none")
    backup, pruning = run_lines(UNITS / "kafkafs-backup@.service")
    assert console.run(f"{backup} > said 2>&1; echo code $?") == "code 1"
    assert console.run(f"export EXIT_STATUS=1; {pruning}; ls backups/runs | wc -l") == "1"
    unit = settings_of(UNITS / "kafkafs-backup@.service")
    assert [line.partition("=")[0] for line in unit if "xargs" in line] == ["ExecStopPost"], "it runs after a failure"
    assert not [line for line in unit if line.startswith("SuccessExitStatus")], "a failure is seen"


def test_the_line_for_fstab_is_one(page: Callable[[str], str], tmp_path: Path) -> None:
    (line,) = FSTAB.findall(page("services"))
    _, _, kind, options, *_ = line.split()
    assert kind == "kafkafs"
    assert parse_options([options]) == parse_options(["ro,allow_other"])
    if shutil.which("findmnt") is None:
        pytest.skip("findmnt is missing")
    for place in ("store", "mnt"):
        (tmp_path / place).mkdir()
    found = line.replace("/var/lib/kafka", f"{tmp_path}/store").replace("/mnt/kafka", f"{tmp_path}/mnt")
    (tmp_path / "fstab").write_text(f"{found}\n")
    done = subprocess.run(
        ["findmnt", "--verify", "--tab-file", tmp_path / "fstab"], capture_output=True, text=True, check=False
    )
    assert "0 parse errors, 0 errors" in done.stderr, done.stdout
