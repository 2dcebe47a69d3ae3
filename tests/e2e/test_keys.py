"""`keys` is to tools what `values` is, with the records' keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

KEYS = [b"first", None, b"", b"with\ttab", "schlüssel".encode(), b"k" * 20_000]


@pytest.fixture
def mounted(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    mount = store_mounts(tmp_path / "store")
    assert mount.run("mkdir t").stderr == ""
    rows = [json.dumps({"key": key if key is None else key.decode(), "value": f"{at}"}) for at, key in enumerate(KEYS)]
    (tmp_path / "rows").write_text("".join(f"{row}\n" for row in rows))
    assert mount.run(f"cat {tmp_path / 'rows'} >> t/0/append.jsonl").stderr == ""
    return mount


def test_tools_find_every_key_once_in_a_file_of_exact_size(mounted: Mounted) -> None:
    expected = b"".join((key or b"") + b"\n" for key in KEYS)
    assert mounted.run_bytes("cat t/0/keys").stdout == expected
    assert mounted.run("stat -c '%s %F' t/0/keys").stdout == f"{len(expected)} regular file\n"
    assert mounted.run("wc -l < t/0/keys").stdout == f"{len(KEYS)}\n"
    assert mounted.run_bytes("tail -c 7 t/0/keys").stdout == expected[-7:]
    assert mounted.run_bytes("dd if=t/0/keys iflag=skip_bytes skip=9 status=none").stdout == expected[9:]
    assert mounted.run("paste t/0/values t/0/keys | head -n 3").stdout == "0\tfirst\n1\t\n2\t\n"
    assert mounted.run("ls t/0").stdout.split().count("keys") == 1
    refused = mounted.run("echo x >> t/0/keys")
    assert (refused.returncode, mounted.run_bytes("cat t/0/keys").stdout) == (1, expected)


def test_tail_follows_keys(mounted: Mounted, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with mounted.started(f"exec tail -n 0 -f -s 0.1 t/0/keys > {output}") as tail:
        mounted.until(lambda: mounted.run(f"ls -l /proc/{tail.pid}/fd | grep -c t/0/keys").stdout == "1\n")
        for number in range(30):
            assert mounted.run(f"printf 'key {number}\\tvalue\\n' >> t/0/append.kv").stderr == ""
            line = f"key {number}\n"
            mounted.until(lambda line=line: output.read_text().endswith(line))  # type: ignore[misc]
    assert output.read_text() == "".join(f"key {number}\n" for number in range(30))
