"""Users other than root in root's mount: they read no view of a file that the store itself does not let them read."""

from __future__ import annotations

import json
import os
import stat
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from mounts import DEADLINE_S, store_mounting
from other_users import NOBODY

from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

OWNER: Final = 4321
GROUP: Final = 1234
PLANS: Final = ("retention.plan", "compaction.plan")
USERS: Final = {
    "the owner": (OWNER, [OWNER]),
    "a member": (NOBODY, [GROUP]),
    "a stranger": (NOBODY, [NOBODY]),
}
TOPICS: Final = ("open", "logs", "index", "directory", "group", "acl", "mixed", "linked")
READER: Final = """
import json, os, stat, sys
os.setgroups(json.loads(sys.argv[2])); os.setgid(os.getgroups()[0]); os.setuid(int(sys.argv[1]))
def read(path):
    try:
        with open(path, "rb") as file:
            file.read(1)
    except FileNotFoundError:
        return None
    except OSError:
        return False
    return True
found = {}
os.chdir(sys.argv[3])
for above, directories, files in os.walk("."):
    for name in directories + files:
        path = os.path.join(above, name)[2:]
        try:
            kind = os.lstat(path).st_mode
        except OSError:
            found[path] = False
            continue
        if stat.S_ISREG(kind):
            found[path] = read(path)
        elif stat.S_ISDIR(kind):
            found[path] = os.access(path, os.R_OK | os.X_OK)
for path in sys.argv[4:]:
    found[path] = read(path)
json.dump(found, sys.stdout)
"""
"""Prints what a user can read below a directory, by its path."""
REOPENER: Final = """
import json, os, sys
os.setgroups(json.loads(sys.argv[2])); os.setgid(os.getgroups()[0]); os.setuid(int(sys.argv[1]))
place = os.open(sys.argv[3], os.O_PATH)
for _ in sys.stdin:
    try:
        with open(f"/proc/self/fd/{place}", "rb") as file:
            file.read()
            print("read", flush=True)
    except PermissionError:
        print("refused", flush=True)
"""
"""Opens a file without reading, and then tries to read it as often as it is told to."""
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
VIEWS: Final = (
    "values",
    "records.jsonl",
    "info",
    "producers",
    "leader-epochs",
    "retention.plan",
    "compaction.plan",
    "log-start-offset",
    "offset/0",
    "offset/0.json",
    "offset/all",
    "by-time/now",
    f"segments/{0:020}.log",
    f"segments/{0:020}.log.txt",
    f"segments/{0:020}.index.txt",
)


@pytest.fixture
def store(scratch: Path) -> Path:
    """Make a store of a user, with topics whose files grant different things."""
    path = scratch / "above" / "store"
    path.parent.mkdir()
    with Store.create([path], files=Files(), clock=Clock()) as made:
        for topic in (*TOPICS, "__consumer_offsets"):
            made.topics.create(topic, 1)
            (batch,) = batches_of_rows([(Clock().now_ms(), b"key", b"value", ())], base_offset=None)
            made.log(topic, 0).append_as_leader(batch, leader_epoch=0)
    for each in (path, *path.rglob("*")):
        os.chown(each, OWNER, GROUP)
        each.chmod(0o755 if each.is_dir() else 0o644)
    log = f"{0:020}.log"
    (path / "logs-0" / log).chmod(0o600)
    (path / "index-0" / f"{0:020}.index").chmod(0o600)
    (path / "directory-0").chmod(0o700)
    (path / "group-0" / log).chmod(0o640)
    deny(path / "acl-0" / log, NOBODY)
    os.chown(path / "mixed-0" / log, 0, 0)
    (path / "mixed-0" / log).chmod(0o640)
    secret = scratch / "secret"
    secret.write_bytes(b"root's own")
    secret.chmod(0o600)
    (path / "linked-0" / f"{1:020}.log").hardlink_to(secret)
    (path / "linked-0" / "stolen").symlink_to(secret)
    os.mkfifo(path / "linked-0" / "fifo")
    (path / "kafkafs-topics.properties").chmod(0o640)
    (path / HIGH_WATERMARKS).chmod(0o600)
    return path


def deny(path: Path, uid: int) -> None:
    """Give a file an access list that keeps one user from it; its mode stays the same."""
    entries = [(1, 6, 2**32 - 1), (2, 0, uid), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 4, 2**32 - 1)]
    data = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", data)
    except OSError as error:
        pytest.skip(f"no access lists here: {error.strerror}")


def readable(user: str, root: Path, *further: str) -> dict[str, bool | None]:
    uid, groups = USERS[user]
    command = [sys.executable, "-c", READER, str(uid), json.dumps(groups), str(root), *further]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    found: dict[str, bool | None] = json.loads(done.stdout)
    return found


def shown_by(path: str, below: dict[str, bool | None]) -> list[str]:
    """Return the files of the store that a view in the mount shows."""
    parts = path.split("/")
    logs = [each for each in below if each.endswith((".log", "index", ".snapshot", "checkpoint")) and "-0/" in each]
    if path.startswith(".kafkafs/cluster/"):
        return [parts[2]] if parts[2] in below else []
    if path.startswith(".kafkafs/groups/"):
        return [each for each in logs if each.startswith("__consumer_offsets-0/")]
    if path in {".kafkafs/transactions", "by-time/now"}:
        return logs
    if parts[0] in TOPICS and parts[1:] == ["config"]:
        return ["kafkafs-topics.properties"]
    if parts[0] in TOPICS and parts[1:2] == ["0"] and len(parts) > 2:
        if parts[2] == "segments" and len(parts) > 3:
            return [f"{parts[0]}-0/{parts[3].removesuffix('.txt')}"]
        if parts[2] != "segments":
            of_log = [each for each in logs if each.startswith(f"{parts[0]}-0/") and not below_is_strange(each)]
            settings = ["kafkafs-topics.properties"] if parts[2].endswith(".plan") else []
            return of_log + settings + ([HIGH_WATERMARKS] if parts[2] in {"info", *PLANS} else [])
    return []


def below_is_strange(path: str) -> bool:
    return path == f"linked-0/{1:020}.log"


@pytest.mark.parametrize("mode", ["ro", "rw"])
@pytest.mark.parametrize("user", USERS)
def test_nothing_is_read_that_the_store_refuses(scratch: Path, store: Path, user: str, mode: str) -> None:
    further = [f"{topic}/0/{view}" for topic in TOPICS for view in VIEWS]
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", f"{mode},allow_other")
        below = readable(user, store, *(f"{topic}-0/{0:020}.log" for topic in TOPICS))
        above = readable(user, mounted.path, *further, "by-time/now", ".kafkafs/transactions")
        more = {
            path: [each for each in shown_by(path, below) if below.get(each) is not True]
            for path, is_readable in above.items()
            if is_readable
        }
        assert {path: files for path, files in more.items() if files} == {}
        assert above["open/0/values"]
        assert above["open/0/offset/0.json"]
        assert above["group/0/values"] == (user != "a stranger")
        for topic, may in (
            ("logs", user == "the owner"),
            ("index", user == "the owner"),
            ("directory", user == "the owner"),
        ):
            assert (above[f"{topic}/0/values"] is True) == may, topic
        assert not above.get("linked/0/segments/stolen")
        assert not above.get(f"linked/0/segments/{1:020}.log")
        for view in ("info", *PLANS):
            assert above[f"open/0/{view}"] == (user == "the owner"), view
        assert above["open/0/producers"]
        mounted.end()


def test_sizes_and_times_tell_nothing_that_modes_refuse(scratch: Path, store: Path) -> None:
    past = 10**9
    (store / "linked-0" / f"{1:020}.log").unlink()
    os.utime(store / "directory-0", (past, past))
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", "ro,allow_other")
        for path in ("by-time/0", ".kafkafs/transactions", ".kafkafs/log", "open/config", "open/0/info"):
            assert (mounted.path / path).stat().st_size == 0, path
            assert (mounted.path / path).read_bytes(), path
        assert (mounted.path / f".kafkafs/cluster/{HIGH_WATERMARKS}").stat().st_size == 0
        assert (mounted.path / "open/0/leader-epochs").stat().st_size > 0
        sized = mounted.run("ls -l open/0").stdout.splitlines()
        assert {line.split()[-1] for line in sized if line.startswith("-r--------")} == {"info", *PLANS}
        assert (mounted.path / "directory/0").stat().st_mtime == past
        assert (mounted.path / "open/0").stat().st_mtime > past
        example = next(line for line in (mounted.path / ".kafkafs/README").read_text().splitlines() if "/info" in line)
        assert readable("a stranger", mounted.path, f"{example.split()[1].removesuffix('/info')}/values")
        assert "cat linked/0/info" in example
        mounted.end()


def test_an_open_stream_ends_where_users_may_not_read_on(scratch: Path, store: Path) -> None:
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", "ro,allow_other")
        with (mounted.path / "open/0/values").open("rb") as values:
            assert values.read() == b"value\n"
            (store / "open-0" / f"{0:020}.log").chmod(0o640)
            append = [sys.executable, "-P", "-m", "kafkafs", "append", str(store), "open/0/append"]

            def is_refused() -> bool:
                subprocess.run(append, input=b"more\n", check=True, timeout=DEADLINE_S)
                try:
                    values.read()
                except PermissionError:
                    return True
                return False

            mounted.until(is_refused)
        assert b"more" in (mounted.path / "open/0/values").read_bytes()
        mounted.end()


def test_a_descriptor_that_was_opened_without_reading_follows_the_modes(scratch: Path, store: Path) -> None:
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", "ro,allow_other")
        uid, groups = USERS["a stranger"]
        command = [sys.executable, "-c", REOPENER, str(uid), json.dumps(groups), str(mounted.path / "open/0/offset/0")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
            stdin, stdout = process.stdin, process.stdout
            assert stdin is not None
            assert stdout is not None

            def can_read() -> bool:
                stdin.write("\n")
                return stdout.readline() == "read\n"

            assert can_read()
            (store / "open-0" / f"{0:020}.log").chmod(0o600)
            mounted.until(lambda: not can_read())
            stdin.close()
        mounted.end()


def test_what_is_closed_below_closes_above_as_long_as_it_is_mounted(scratch: Path, store: Path) -> None:
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", "ro,allow_other")
        assert readable("a stranger", mounted.path, "open/0/values")["open/0/values"]
        (store / "open-0" / f"{0:020}.log").chmod(0o640)
        mounted.until(lambda: readable("a stranger", mounted.path, "open/0/values")["open/0/values"] is False)
        (store / "open-0" / f"{0:020}.log").chmod(0o644)
        mounted.until(lambda: readable("a stranger", mounted.path, "open/0/values")["open/0/values"] is True)
        store.parent.chmod(0o750)
        mounted.until(lambda: stat.S_IMODE(mounted.path.stat().st_mode) & 0o007 == 0)
        path = f"{mounted.path.name}/open/0/values"
        assert not readable("a stranger", scratch, path)[path]
        mounted.end()


def test_what_is_no_file_is_shown_as_what_it_is(scratch: Path, store: Path) -> None:
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", "ro,allow_other")
        segments = mounted.path / "linked" / "0" / "segments"
        kinds = {entry.name: stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode) for entry in os.scandir(segments)}
        assert (kinds["fifo"], kinds["stolen"]) == (stat.S_IFIFO, stat.S_IFLNK)
        assert kinds[f"{1:020}.log"] == stat.S_IFREG
        assert stat.S_IMODE((segments / "fifo").lstat().st_mode) == 0
        assert str((segments / "stolen").readlink()) == f"stolen/(not followed){scratch}/secret"
        for name, said in (("stolen", "Too many levels"), (f"{1:020}.log", "Operation not permitted")):
            done = mounted.run(f"cat linked/0/segments/{name}")
            assert (done.returncode, done.stdout) == (1, "")
            assert said in done.stderr
        assert mounted.run("find linked/0/segments -type p -o -type l").stdout.split() == [
            "linked/0/segments/fifo",
            "linked/0/segments/stolen",
        ]
        mounted.end()
