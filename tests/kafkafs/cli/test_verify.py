"""`kafkafs verify` as a command: what it prints, where, and how it ends."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from partition_writer import open_closed_log

from kafkafs.cli import main
from kafkafs.cli.verify import journal_of
from storage.clock import Clock
from storage.errors import CorruptMetadataError
from storage.files import Files
from storage.record import batches_of_rows
from storage.store.store import Store

if TYPE_CHECKING:
    from click.testing import Result


def verify(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["verify", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def findings(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock(), open_log=open_closed_log) as store:
        store.topics.create("orders", 2, {"segment.index.bytes": "1200"})
        for number in (0, 0, 0, 1):
            (batch,) = batches_of_rows([(1_700_000_000_000, b"key", b"value" * 10, ())])
            store.log("orders", number).append_as_leader(batch, leader_epoch=0)
    return path


def log_of(store: Path, number: int = 0) -> Path:
    return store / f"orders-{number}" / f"{0:020d}.log"


def test_a_sound_store(store: Path) -> None:
    def state() -> dict[str, tuple[int, str]]:
        files = [store, *store.rglob("*")]
        return {
            str(path): (
                path.stat().st_mtime_ns,
                hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            )
            for path in files
        }

    before = state()
    result = verify(store)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "sound: 2 partitions, 2 segments, 4 batches, 0.0 MB\n"
    assert state() == before


def test_damage(store: Path) -> None:
    log = log_of(store)
    data = bytearray(log.read_bytes())
    size = len(data) // 3
    data[size + 70] ^= 1
    log.write_bytes(data)
    result = verify(store, "--jobs", 2)
    (finding,) = findings(result)
    assert list(finding) == [
        "severity",
        "kind",
        "logDir",
        "topic",
        "partition",
        "path",
        "position",
        "endPosition",
        "offset",
        "lastGoodOffset",
        "nextGoodOffset",
        "reason",
        "startAction",
        "atStart",
    ]
    reason = finding.pop("reason")
    assert re.fullmatch(r"the batch's bytes have CRC [0-9a-f]{8}, its header says [0-9a-f]{8}", str(reason))
    assert finding == {
        "severity": "damage",
        "kind": "checksum",
        "logDir": str(store),
        "topic": "orders",
        "partition": 0,
        "path": f"orders-0/{0:020d}.log",
        "position": size,
        "endPosition": 2 * size,
        "offset": 1,
        "lastGoodOffset": 0,
        "nextGoodOffset": 2,
        "startAction": "nothing",
        "atStart": "a broker does not read this segment when it starts, and serves it as it is",
    }
    (store / ".kafka_cleanshutdown").unlink()
    (store / "recovery-point-offset-checkpoint").unlink()
    (finding,) = findings(verify(store))
    assert (finding["startAction"], finding["atStart"]) == (
        "truncate",
        f"a broker truncates this log at position {size} and loses the offsets from 1 up to the log's end",
    )
    assert result.exit_code == 1
    assert result.stderr == "damage: 1 finding in 2 partitions, 2 segments, 3 batches, 0.0 MB\n"


def test_only_some_topics(store: Path) -> None:
    assert verify(store, "orders").exit_code == 0
    result = verify(store, "other")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "kafkafs: there is no topic 'other'\n")


def test_a_notice_is_no_damage(store: Path) -> None:
    log_of(store).with_suffix(".log.deleted").touch()
    result = verify(store)
    (finding,) = findings(result)
    assert (finding["severity"], finding["kind"], finding["path"]) == ("notice", "left_over", "orders-0")
    assert result.exit_code == 0
    assert result.stderr == "sound: 2 partitions, 2 segments, 4 batches, 0.0 MB (1 notice)\n"


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", f"{3:020d}.snapshot"])
def test_a_small_file_of_gigabytes_is_damage(store: Path, name: str) -> None:
    with (store / "orders-0" / name).open("wb") as file:
        file.truncate(6 * 10**9)
    result = verify(store)
    found = [finding for finding in findings(result) if finding["path"] == f"orders-0/{name}"]
    assert [finding["severity"] for finding in found] == ["damage"]
    assert result.exit_code == 1


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_no_store(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    result = verify(tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(r"kafkafs: .*\n", result.stderr)


def test_what_cannot_be_read(store: Path) -> None:
    log_of(store).unlink()
    os.mkfifo(log_of(store))
    result = verify(store)
    (finding,) = findings(result)
    assert (finding["severity"], finding["kind"]) == ("unreadable", "unreadable")
    assert result.exit_code == 3
    assert result.stderr.startswith("not all could be read: 1 finding in ")
    data = log_of(store, 1).read_bytes()
    log_of(store, 1).write_bytes(data + b"?")
    assert verify(store).exit_code == 1


def test_beside_a_broker(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    priorities: list[tuple[int, ...]] = []
    monkeypatch.setattr(os, "setpriority", lambda *said: priorities.append(said))
    log_of(store).write_bytes(log_of(store).read_bytes() + b"?")
    assert (verify(store, "--polite").stdout, verify(store).exit_code) == (verify(store).stdout, 1)
    assert priorities == [(os.PRIO_PROCESS, 0, 19)]
    for rate in ("0", "-1", "fast", "1T", ""):
        result = verify(store, "--rate", rate)
        assert (result.exit_code, "is not a number of bytes from 1" in result.stderr) == (2, True)
    assert verify(store, "--rate", "2k").exit_code == 1


def test_an_interrupted_verification_goes_on(store: Path, tmp_path: Path) -> None:
    log_of(store).write_bytes(log_of(store).read_bytes() + b"?")
    due, kept = verify(store), tmp_path / "kept"
    result = verify(store, "--resume", kept)
    assert (result.stdout, result.stderr, result.exit_code) == (due.stdout, due.stderr, 1)
    assert not kept.exists()
    kept.write_text("my notes\n")
    result = verify(store, "--resume", kept)
    assert (result.exit_code, kept.read_text()) == (3, "my notes\n")
    assert "it is no record of a verification" in result.stderr


def test_the_record_of_an_object_store_is_its_own_in_every_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, store = tmp_path / "kept", (Path("s3://bucket/store"),)
    with journal_of(kept, store, ()):
        pass
    monkeypatch.chdir(tmp_path)
    with journal_of(kept, store, ()):
        pass
    with pytest.raises(CorruptMetadataError), journal_of(kept, (Path("s3://bucket/other"),), ()):
        pass
