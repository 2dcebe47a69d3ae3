"""Commands on a store in object storage, against a real S3 server: they print what they print of the directory.

Whatever fails there is a sentence and exit code 3, and never a finding, or the lack of one.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from object_stores import BUCKET, Failure, Request

import kafkafs
from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result
    from object_stores import S3Server

LOG = f"{0:020}.log"
PARTITIONS = {"__consumer_offsets-0", "t-compact-0", "t-delrec-0", "t-prealloc-0", "t-txn-0", "t-v0-0", "t-zstd-1"}
TIME_MS = 1_700_000_000_000
SEGMENT_BYTES = 8_000_000
OF_COMMAND_MAX, OF_SEGMENT_MAX, OF_NEXT_MAX, BYTES_MAX = 30, 5, 2, 2_000_000


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


@pytest.fixture(scope="module")
def paths(datasets: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return two log directories of a real broker, with some of its partitions."""
    made = tmp_path_factory.mktemp("kafka")
    for log_dir in ("d1", "d2"):
        source = datasets("kafka-3.9") / "kafka-3.9" / log_dir
        (made / log_dir).mkdir()
        for path in source.iterdir():
            if path.is_file():
                shutil.copy(path, made / log_dir)
            elif path.name in PARTITIONS:
                shutil.copytree(path, made / log_dir / path.name)
    return [made / "d1", made / "d2"]


@pytest.fixture(scope="module")
def uris(paths: list[Path], s3: S3Server) -> list[str]:
    return [s3.put(path) for path in paths]


@pytest.mark.golden
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("ls", []),
        ("ls", ["t-prealloc/0/offset"]),
        ("cat", ["t-compact/0/records.jsonl", "t-v0/0/records.jsonl", "t-zstd/1/records.jsonl"]),
        ("cat", ["--isolation", "read_committed", "t-txn/0/values"]),
        ("cat", ["t-txn/0/leader-epochs", "t-txn/0/producers", "t-compact/0/info"]),
        ("cat", ["t-prealloc/0/segments/00000000000000000000.log.txt"]),
        ("verify", []),
        ("stats", ["--json"]),
        ("groups", ["--json"]),
        ("topics list", ["--json"]),
    ],
)
def test_they_print_what_they_print_of_the_directory(
    command: str, arguments: list[str], paths: list[Path], uris: list[str]
) -> None:
    due = run(*command.split(), ",".join(map(str, paths)), *arguments)
    found = run(*command.split(), ",".join(uris), *arguments)
    stdout, stderr = found.stdout, found.stderr
    for path, uri in zip(paths, uris, strict=True):
        stdout, stderr = stdout.replace(uri, str(path)), stderr.replace(uri, str(path))
    assert (found.exit_code, _ageless(stdout), stderr) == (due.exit_code, _ageless(due.stdout), due.stderr)
    assert len(due.stdout) > 10 or command == "verify"


def _ageless(text: str) -> str:
    return re.sub(r'"ageSeconds": *\d+', "", text)


def test_dump_of_an_object(paths: list[Path], uris: list[str]) -> None:
    log = next(path for path in sorted(paths[0].glob("*-0/*.log")) if path.stat().st_size > 0)
    name = str(log.relative_to(paths[0]))
    for each in (name, name.replace(".log", ".index")):
        due, found = run("dump", paths[0] / each), run("dump", f"{uris[0]}/{each}")
        assert due.exit_code == found.exit_code == 0
        shortened = uris[0].replace("//", "/")  # as Java has it in paths
        assert found.stdout.replace(uris[0], shortened).replace(shortened, str(paths[0])) == due.stdout
    assert run("dump", f"{uris[0]}/{name}".replace("0.log", "7.log")).exit_code == 1


def test_explain_names_commands_that_read_the_object(filled_store: Path, s3: S3Server) -> None:
    uri = s3.put(filled_store)
    (row,) = json.loads(run("explain", uri, "orders/0/offset/3", "--json").stdout)
    assert row["dd"] == f"kafkafs cat '{uri}' orders/0/offset/3.batch"
    data = run(*shlex.split(row["dd"])[1:]).stdout_bytes
    assert data == run("cat", filled_store, "orders/0/offset/3.batch").stdout_bytes
    assert len(data) == row["bytes"]
    assert row["dump"].startswith(f"kafkafs dump '{uri}/orders-0/{LOG}' | sed -n")


def test_damage_is_the_same_damage(damaged_store: Path, s3: S3Server) -> None:
    uri = s3.put(damaged_store)
    for command, code in ((["verify"], 1), (["cat", "orders/0/values"], 3)):
        due, found = (run(command[0], store, *command[1:]) for store in (damaged_store, uri))
        assert (found.exit_code, found.stdout.replace(uri, str(damaged_store))) == (code, due.stdout)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store of one segment."""
    path = tmp_path_factory.mktemp("large") / "store"
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1)
        log = store.log("orders", 0)
        while log.view.segments[-1].size_bytes < SEGMENT_BYTES:
            begin = log.view.end_offset
            rows = [(TIME_MS + begin + number, None, b"%0200d" % (begin + number), ()) for number in range(100)]
            (batch,) = batches_of_rows(rows, base_offset=None)
            log.append_as_leader(batch, leader_epoch=0)
    return path


@pytest.mark.parametrize("path", ["orders/0/offset/20000", f"orders/0/by-time/{TIME_MS + 20000}"])
def test_a_lookup_takes_a_handful_of_requests(path: str, large: Path, s3: S3Server) -> None:
    uri = s3.put(large)
    with s3.counted() as requests:
        found = run("cat", uri, path)
    assert (found.exit_code, found.stdout) == (0, f"{20000:0200d}")
    ranges = [each for each in requests if each.kind == "get" and f"orders-0/{0:020}" in each.key]
    size_bytes = sum(each.size_bytes for each in requests)
    print(f"{path}: {len(requests)} requests, {len(ranges)} of the segment, {size_bytes} bytes")  # for scripts/prove
    assert len(requests) <= OF_COMMAND_MAX
    assert len(ranges) <= OF_SEGMENT_MAX
    assert size_bytes <= BYTES_MAX


def test_the_next_lookup_in_an_open_store_takes_one_range(large: Path, s3: S3Server) -> None:
    with kafkafs.open(s3.put(large)) as store:
        log = store["orders"][0]
        assert log.record(20000).value == b"%0200d" % 20000
        with s3.counted() as requests:
            assert log.record(10000).value == b"%0200d" % 10000
        assert len([each for each in requests if each.kind == "get"]) <= OF_NEXT_MAX
        print(f"the next: {len(requests)} requests, {sum(each.size_bytes for each in requests)} bytes")


DENIED = ("403 Forbidden", "AccessDenied")


def test_the_pages_examples(large: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put(large, "kafka")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{s3.endpoint}")
    page = files("kafkafs").joinpath("docs", "cli.md").read_text(encoding="utf-8")
    examples = re.findall(r"^    kafkafs (.* 's3://backups/kafka.*)$", page, re.MULTILINE)
    assert len(examples) == 3
    for example in examples:
        result = run(*shlex.split(example.replace("minio:9000", s3.endpoint)))
        assert (result.exit_code, "sound" in result.stderr) == (0, example.startswith("verify"))


def is_data(request: Request) -> bool:
    return request.kind != "list" and "orders-0/" in request.key


def is_list(request: Request) -> bool:
    return request.kind == "list"


@pytest.mark.parametrize("command", [["cat", "orders/0/values"], ["verify"], ["stats"], ["ls", "orders/0/offset"]])
@pytest.mark.parametrize(
    "failure",
    [
        Failure(is_data, *DENIED, spares=1),
        Failure(is_data, *DENIED),
        Failure(is_list, *DENIED),
        Failure(is_list, *DENIED, spares=1),
    ],
    ids=["get", "head", "list", "later list"],
)
def test_a_failure_is_no_finding(command: list[str], failure: Failure, filled_store: Path, s3: S3Server) -> None:
    uri = s3.put(filled_store)
    with s3.failing(failure):
        result = run(command[0], uri, *command[1:])
    assert result.exit_code == 3
    assert "access is denied; see which credentials pyarrow finds" in result.stderr
    assert "sound" not in result.output


def test_a_failure_in_a_process_of_verify_is_no_finding(
    large: Path, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.verify.verification._SPREAD_FROM_BYTES", 0)
    two = shutil.copytree(large, tmp_path / "two")
    shutil.copytree(two / "orders-0", two / "orders-1")
    uri = s3.put(two)
    with s3.failing(Failure(lambda request: request.key.endswith(".log"), *DENIED, spares=4)):
        result = run("verify", "--jobs", "2", uri)
    assert (result.exit_code, "access is denied" in result.stderr) == (3, True)


def test_a_store_that_is_not_there(filled_store: Path, s3: S3Server) -> None:
    uri = s3.put(filled_store)
    missing = run("ls", uri.replace("?", "-not?"))
    assert missing.exit_code == 2
    assert "there is no such directory" in missing.stderr
    within = run("ls", f"{uri}/orders-0")
    assert within.exit_code == 2
    assert within.stderr.rstrip().endswith(f"its store is its parent, {uri} ({uri}/orders-0)")
    bucket = run("verify", s3.uri("store", "nobodys"))
    assert bucket.exit_code == 3
    assert "there is no such bucket" in bucket.stderr


def test_what_goes_while_it_is_looked_at(large: Path, s3: S3Server) -> None:
    uri = s3.put(large)
    key = s3.key(uri, f"orders-0/{LOG}")
    gone = Failure(
        lambda request: request.kind == "get" and request.key == key,
        "",
        first=lambda: s3.client.delete_object(Bucket=BUCKET, Key=key),
        spares=2,
        times=1,
    )
    with s3.failing(gone):
        result = run("cat", uri, "orders/0/values")
    assert gone.times == 0
    assert result.exit_code == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["append", "orders/0/append", "--rw"],
        ["topics", "create", "more"],
        ["topics", "delete", "orders", "--apply"],
        ["recover", "--apply"],
        ["retention", "--apply"],
        ["compact", "--apply"],
    ],
)
def test_changing_is_refused_with_what_to_do(arguments: list[str], filled_store: Path, s3: S3Server) -> None:
    uri = s3.put(filled_store)
    names = 2 if arguments[0] == "topics" else 1
    result = run(*arguments[:names], uri, *arguments[names:])
    assert result.exit_code == 3
    assert "an object store is only read; copy it to a directory, and change the copy or mount it" in result.stderr


def test_a_mount_is_refused_with_what_to_do(filled_store: Path, s3: S3Server, tmp_path: Path) -> None:
    uri = s3.put(filled_store)
    result = run("mount", uri, tmp_path / "mnt")
    assert result.exit_code == 3
    assert f"{uri} is in an object store, which is not mounted: read it with `kafkafs cat`" in result.stderr
    assert list(tmp_path.glob("mnt")) == []


def test_a_file_uri_is_the_directory(filled_store: Path) -> None:
    assert run("stats", f"file://{filled_store}").stdout == run("stats", filled_store).stdout
    with Store.open([filled_store], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        assert store.is_made_here
