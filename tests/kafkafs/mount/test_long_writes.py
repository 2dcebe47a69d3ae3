"""A write that the kernel hands over in pieces: its writer hears of a refusal, whichever piece that is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

LONG = 1_100_000  # of one line: more than a record may have, and than the kernel hands over at once


@pytest.fixture
def orders(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    mounted = store_mounts(tmp_path / "store")
    assert mounted.run("mkdir orders").returncode == 0
    return mounted


@pytest.mark.parametrize("newline", ["", r"\n"], ids=["unterminated", "whole"])
@pytest.mark.parametrize("file", ["append", "append.raw", "append.jsonl"])
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_what_is_too_large_is_refused(orders: Mounted, shell: str, file: str, newline: str) -> None:
    text = f"printf '%0{LONG * 17 if file == 'append.jsonl' else LONG}d{newline}' 0"
    done = orders.run(f"{text} > ../text; dd if=../text of=orders/0/{file} bs=64M", shell=shell)
    assert done.returncode != 0
    assert "Message too long" in done.stderr or (newline and "Invalid argument" in done.stderr)
    assert orders.run("cat orders/0/records.jsonl").stdout == ""
    assert orders.run("echo next >> orders/0/append; cat orders/0/values", shell=shell).stdout == "next\n"


def test_a_builtin_hears_of_it(orders: Mounted) -> None:
    done = orders.run(f"line=$(printf '%0{LONG}d' 0); echo \"$line\" >> orders/0/append; echo $?; cat orders/0/values")
    assert done.stdout == "1\n"
    assert "Message too long" in done.stderr


def test_lines_before_the_refused_piece_are_there_once(orders: Mounted) -> None:
    lines = 'yes \'{"value":"a"}\' | head -n 90000; echo \'{}\'; echo \'{"value":"behind"}\''
    done = orders.run(f"({lines}) > ../lines; dd if=../lines of=orders/0/append.jsonl bs=64M status=none")
    assert done.returncode != 0
    assert "Invalid argument" in done.stderr
    stored = orders.run("cat orders/0/values").stdout
    assert stored == "a\n" * (len(stored) // 2)
    assert 60_000 < len(stored) // 2 <= 2**20 // len('{"value":"a"}\n')


def test_a_writer_who_has_heard_goes_on(orders: Mounted) -> None:
    code = f"""
import os
descriptor = os.open("orders/0/append", os.O_WRONLY)
heard = 0
for line in [b"x" * {LONG} + b"\\n", b"next\\n"]:
    while line:
        try:
            line = line[os.write(descriptor, line):]
        except OSError as error:
            heard += 1
            break
print(heard)
"""
    assert orders.run(f"python3 -c '{code}'; cat orders/0/values").stdout == "1\nnext\n"
