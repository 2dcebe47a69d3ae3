"""What the library gives is typed: a user's program passes mypy's strict mode, and mistakes in it do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[3]
PROGRAM = """
from collections.abc import Iterator
from datetime import UTC, datetime

import kafkafs


def values(path: str) -> Iterator[bytes | None]:
    with kafkafs.open(path, isolation="read_uncommitted") as store:
        orders: kafkafs.Topic = store["orders"]
        partition: kafkafs.Partition = orders[0]
        for record in partition.records(times=(datetime(2026, 11, 21, tzinfo=UTC), None)):
            headers: tuple[tuple[str, bytes | None], ...] = record.headers
            yield record.value if headers else record.key
        for each in orders.follow({0: 42}, timeout=1.5):
            reveal_type(each)
        reveal_type(partition.record("latest"))
        reveal_type(partition.to_batches(columns=["key"]).schema)
        reveal_type(store.get("orders"))
        for finding in store.verify():
            reveal_type(finding.reason)


def produce(path: str) -> range:
    try:
        with kafkafs.open(path, write=True) as store:
            topic = store.create("orders", partitions=3, settings={"retention.ms": "-1"})
            offset: int = topic[0].append(b"value", key=b"k", headers=[("h", b"1")])
            topic[1].append_many(store["others"][0].records())
            return topic[0].append_many({"value": b"%d" % n, "timestamp": offset} for n in range(3))
    except kafkafs.StoreLockedError as error:
        raise SystemExit(str(error)) from None
"""
REVEALED = [
    "kafkafs.library.record.Record",
    "kafkafs.library.record.Record | None",
    "Schema",
    "kafkafs.library.topic.Topic | None",
    "str",
]
MISTAKES = {
    'kafkafs.open("store", isolation="committed")': "isolation",
    'kafkafs.open("store")["orders"][0].append("text")': "append",
    'kafkafs.open("store")["orders"][0].append_many([{"valeu": b""}])': "append_many|List item|Extra key",
    'kafkafs.open("store")["orders"]["0"]': "index",
    "kafkafs.Consumer": "no attribute",
}


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Give what mypy says of a program, which finds kafkafs as an installed package."""
    monkeypatch.setenv("MYPYPATH", str(ROOT))

    def checked(program: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(program)
        cache = ROOT / ".mypy_cache"
        config = tmp_path / "mypy.ini"
        config.write_text(f"[mypy]\nstrict = True\ncache_dir = {cache}\nfollow_imports = silent\n")
        said, errors, _ = api.run(["--config-file", str(config), str(path)])
        assert not errors
        return said

    return checked


def test_a_program_passes_in_strict_mode(check) -> None:
    said = check(PROGRAM)
    assert "error:" not in said, said
    revealed = re.findall(r'Revealed type is "(.*)"', said)
    assert list(map(_plain, revealed)) == REVEALED


def _plain(revealed: str) -> str:
    """A type without the fields that mypy shows of a named tuple."""
    return re.sub(r"^pyarrow\..*\.|^builtins\.", "", re.sub(r"tuple\[.*, fallback=([\w.]+)\]", r"\1", revealed))


def test_mistakes_are_found(check) -> None:
    said = check("import kafkafs\n" + "\n".join(MISTAKES) + "\n")
    for line, (mistake, reason) in enumerate(MISTAKES.items(), 2):
        assert re.search(rf"program.py:{line}: error: .*({reason})", said), (mistake, said)
