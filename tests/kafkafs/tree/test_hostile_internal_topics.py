"""Internal topics that an attacker wrote: every view of them ends, in time and within its memory."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
import tracemalloc
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from click.testing import CliRunner
from consumer_blobs import encode_assignment
from group_stores import TIME_MS, commit, transaction, write

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.internal import metadata, offsets, shares, transactions
from storage.log.producers.snapshot import encode_snapshot
from storage.log.producers.state import AppendOrigin, ProducerState
from storage.record import batches_of_rows
from storage.store.internal_topics import OPEN_TRANSACTIONS_MAX
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

MEMORY_BYTES_MAX = 200_000_000
HOSTILE_IDS = (
    *("../x", "..", ".", "", "a/b", "/etc/passwd", "new\nline", "nul\0", "tab\tand\x1b[31m", "\u2028", "\udcff\udcfe"),
    *(
        "%2E%2E",
        "%",
        "%sha256-" + "0" * 64,
        "x" * 249,
        "x" * 255,
        "x" * 256,
        "y" * 32_000,
        "ä" * 250,
        "/" * 85,
        "/" * 86,
    ),
    *("same", "SAME", "e\u0301", "\u00e9"),
)
TOPIC_ID = UUID(int=7)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as made:
        made.topics.create("orders", 2)
        for topic in (offsets.TOPIC, transactions.TOPIC, shares.TOPIC):
            made.topics.create(topic, 2)
        yield made


def run(store: Store, *arguments: str) -> Result:
    """A command on the store, which must not fail in a way that it does not know."""
    path = str(store.log_dirs[0].path)
    store.close()
    result = CliRunner().invoke(main, [arguments[0], path, *arguments[1:]])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def test_hostile_ids_of_groups_have_names_of_their_own(store: Store) -> None:
    for number, group in enumerate(HOSTILE_IDS):
        commit(store, group, "orders", 0, number, at=number % 2)
    names = run(store, "ls", ".kafkafs/groups").stdout.splitlines()
    assert len(set(names)) == len(names) == len(HOSTILE_IDS)
    assert all(len(name) <= 255 and "/" not in name and name not in {".", "..", ""} for name in names)
    committed = set()
    for name in names:
        header, row = run(store, "cat", f".kafkafs/groups/{name}").stdout.splitlines()
        assert len(header.split("\t")) == len(row.split("\t"))
        committed.add(int(row.split("\t")[3]))
    assert committed == set(range(len(HOSTILE_IDS)))
    rows = [
        json.loads(line) for line in run(store, "groups", "--jsonl").stdout_bytes.splitlines() if b"udc" not in line
    ]
    assert {row["group"] for row in rows} >= {group for group in HOSTILE_IDS if group.isprintable()}
    command = [sys.executable, "-P", "-m", "kafkafs", "groups", store.log_dirs[0].path, "--table"]
    table = subprocess.run(command, capture_output=True, check=True).stdout
    assert len(table.split(b"\n")) == len(HOSTILE_IDS) + 2
    assert b"\x1b" not in table


@pytest.mark.parametrize("path", ["..", "../x", "%2e%2e", "x%2Fy%", "%sha256-" + "1" * 64, "%sha256-zz", "%2E%2E"])
def test_names_that_no_group_has_lead_nowhere(store: Store, path: str) -> None:
    commit(store, "orders", "orders", 0, 1)
    assert run(store, "cat", f".kafkafs/groups/{path}").exit_code in {1, 2}


def test_a_group_that_claims_to_be_of_every_kind_is_shown(store: Store) -> None:
    chance = random.Random(7)
    for record_type in (*range(2, 18), *range(19, 24)):
        pair = offsets.definitions(record_type)
        assert pair is not None
        key = dict.fromkeys((name for name, *_ in pair[0].schema(0).definition), "g")
        value = pair[1].schema(pair[1].newest_version).default()
        write(store, offsets.TOPIC, offsets.encode_key(record_type, key), value_of(record_type, value))
        write(store, offsets.TOPIC, offsets.encode_key(record_type, key), chance.randbytes(9))
    result = run(store, "groups", "g")
    assert result.exit_code == 0
    assert "cannot be read" in result.stderr or "not known here" in result.stderr


def value_of(record_type: int, fields: dict[str, Any]) -> bytes:
    pair = offsets.definitions(record_type)
    assert pair is not None
    return offsets.encode_value(record_type, pair[1].newest_version, fields)


@pytest.mark.parametrize(
    "assignment",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\xff\xff\xff\xff",
        b"\x7f\xff\0\0\0\1\0\1t\x7f\xff\xff\xff",
        b"\0\0\0\0\0\1\xff\xff",
        b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0",
        b"\0\0\0\0\0\1\0\1t\0\0\0\1\x80\0\0\0\x7f\xff\xff\xff",
    ],
)
def test_an_assignment_of_a_wrong_length_leaves_the_member(store: Store, assignment: bytes) -> None:
    write(store, offsets.TOPIC, *classic("g", [member("m", assignment)]))
    result = run(store, "groups", "g", "--json")
    assert result.exit_code == 0
    assert {row["memberId"] for row in json.loads(result.stdout)} == {"m"}
    assert run(store, "cat", ".kafkafs/groups/g").exit_code == 0


def member(member_id: str, assignment: bytes) -> dict[str, Any]:
    return {"memberId": member_id, "clientId": "c", "clientHost": "/h", "subscription": b"", "assignment": assignment}


def classic(group: str, members: list[dict[str, Any]]) -> tuple[bytes, bytes]:
    fields = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m", "members": members}
    return offsets.encode_key(2, {"group": group}), offsets.encode_value(2, 3, fields)


def test_a_long_name_beside_each_of_many_partitions_is_not_made_into_gigabytes(store: Store) -> None:
    """Each record has less than a megabyte, and its rows would have many gigabytes."""
    numbers = list(range(200_000))
    assignment = encode_assignment(0, {"assignedPartitions": [{"topic": "\x1b" + "t" * 32_000, "partitions": numbers}]})
    write(store, offsets.TOPIC, *classic("g", [member("m" * 32_000, assignment)]))
    fields = {
        "producerId": 1,
        "transactionStatus": 1,
        "transactionPartitions": [{"topic": "t" * 32_000, "partitionIds": numbers}],
    }
    key = transactions.encode_key(0, {"transactionalId": "t"})
    write(store, transactions.TOPIC, key, transactions.encode_value(0, 0, fields))
    tracemalloc.start()
    try:
        began = time.process_time()
        cut = run(store, "cat", ".kafkafs/groups/g")
        assert (cut.exit_code, len(cut.stdout) > 1_000_000) == (3, True)
        assert "MiB" in cut.stderr
        del cut
        shown = run(store, "cat", ".kafkafs/transactions")
        assert (shown.exit_code, "(200000 partitions)" in shown.stdout) == (0, True)
        [file] = (store.log_dirs[0].path / f"{transactions.TOPIC}-0").glob("*.log")
        text = run(store, "cat", f"{transactions.TOPIC}/0/segments/{file.name}.txt")
        assert (text.exit_code, "too long together" in text.stdout) == (0, True)
        assert time.process_time() - began < 60
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * MEMORY_BYTES_MAX  # whose printed text is kept here in three forms


def test_of_very_many_open_transactions_the_oldest_are_told(store: Store) -> None:
    """A producer's snapshot of a few megabytes has as many, and each would be looked up in the log."""
    (batch,) = batches_of_rows([(TIME_MS, None, b"value", ())], base_offset=None)
    store.log_to_write("orders", 0).append_as_leader(batch, leader_epoch=0)
    store.close()
    partition = store.log_dirs[0].path / "orders-0"
    states = (ProducerState(number, 0, -1, TIME_MS, number) for number in range(OPEN_TRANSACTIONS_MAX + 2))
    (partition / f"{1:020}.snapshot").write_bytes(encode_snapshot(states))
    result = run(store, "cat", ".kafkafs/transactions")
    assert result.exit_code == 3
    assert f"orders-0 has {OPEN_TRANSACTIONS_MAX + 2} open transactions" in result.stderr
    assert [row.split("\t")[1] for row in result.stdout.splitlines()[1:]] == list(
        map(str, range(OPEN_TRANSACTIONS_MAX))
    )


def test_tasks_by_topics_are_not_tried_one_by_one(store: Store) -> None:
    """A record of 50,000 topics and one of 200,000 tasks: their product would take hours."""
    topics = [f"t{number}" for number in range(50_000)] + ["orders"]
    subtopology = {"subtopologyId": "0", "sourceTopics": topics}
    tasks = [{"subtopologyId": "0", "partitions": list(range(50_000))} for _ in range(4)]
    group, of_member = {"groupId": "g"}, {"groupId": "g", "memberId": "m"}
    for record_type, key, value in (
        (17, group, {"epoch": 1, "validatedTopologyEpoch": 1}),
        (19, of_member, {"clientId": "c", "clientHost": "/h", "processId": "p"}),
        (20, group, {"assignmentEpoch": 1}),
        (22, of_member, {"memberEpoch": 1, "state": 1, "activeTasks": tasks}),
        (23, group, {"epoch": 1, "subtopologies": [subtopology]}),
    ):
        write(store, offsets.TOPIC, offsets.encode_key(record_type, key), value_of(record_type, value))
    began = time.process_time()
    rows = json.loads(run(store, "groups", "g", "--json").stdout)
    assert [(row["topic"], row["partition"], row["state"]) for row in rows] == [
        ("orders", 0, "Stable"),
        ("orders", 1, "Stable"),
    ]
    assert time.process_time() - began < 20


def test_a_hundred_thousand_groups_are_listed_and_found(store: Store) -> None:
    count = 100_000
    rows = (
        (
            TIME_MS,
            offsets.encode_key(1, {"group": f"g{number}/", "topic": "orders", "partition": 0}),
            offsets.encode_value(1, 3, {"offset": number, "metadata": "", "commitTimestamp": TIME_MS}),
            (),
        )
        for number in range(count)
    )
    log: Any = store.log(offsets.TOPIC, 0)
    for batch in batches_of_rows(list(rows), base_offset=None, max_bytes=1 << 19):
        log.append_as_leader(batch, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    write(store, offsets.TOPIC, offsets.encode_key(1, {"group": "g5/", "topic": "orders", "partition": 0}), None)
    names = run(store, "ls", ".kafkafs/groups").stdout.splitlines()
    assert len(names) == count - 1
    began = time.process_time()
    found = run(store, "cat", *(f".kafkafs/groups/{name}" for name in names[:2000]))
    assert found.stdout.count("\n") == 4000
    assert time.process_time() - began < 60  # each name is found without a look at all the others


@pytest.mark.parametrize(
    ("offset", "at_ms"), [(-5, -1), (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (0, 0), (2**62, -2)]
)
def test_offsets_and_times_beyond_all_bounds_are_shown(store: Store, offset: int, at_ms: int) -> None:
    commit(store, "g", "orders", 0, offset, commitTimestamp=at_ms)
    transaction(store, "t", -1, 1, 0, 2**31 - 1)
    assert run(store, "groups", "g").exit_code == 0
    assert run(store, "cat", ".kafkafs/groups/g").stdout.split("\n")[1].split("\t")[3] == str(offset)
    assert run(store, "cat", ".kafkafs/transactions").stdout.split("\n")[1].split("\t")[0] == "t"


def test_a_share_group_that_lies_about_its_start(store: Store) -> None:
    topics = [{"topicId": TOPIC_ID, "topicName": "orders", "partitions": [0, 0, 2**31 - 1]}]
    write(store, offsets.TOPIC, offsets.encode_key(15, {"groupId": "g"}), value_of(15, {"initializedTopics": topics}))
    key = {"groupId": "g", "topicId": TOPIC_ID, "partition": 0}
    lie = {"startOffset": 2**63 - 1, "deliveryCompleteCount": 2**31 - 1}
    write(store, shares.TOPIC, shares.encode_key(0, key), shares.encode_value(0, 0, lie))
    write(store, shares.TOPIC, b"\0\0rest", b"\0")
    result = run(store, "groups", "g", "--json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [(row["partition"], row["startOffset"]) for row in rows] == [(0, 2**63 - 1), (2**31 - 1, None)]
    assert run(store, "cat", ".kafkafs/groups/g").exit_code == 3  # something of that topic cannot be read


# The metadata log


@pytest.fixture
def cluster(datasets: Callable[[str], Path], tmp_path: Path) -> Path:
    """The metadata log's directory in a copy of a broker's store."""
    shutil.copytree(datasets("kafka-3.9") / "kafka-3.9" / "d1", tmp_path / "d1")
    (found,) = tmp_path.glob("d1/__cluster_metadata-0")
    return found


VIEWS = ("topics", "brokers", "configs", "features", "quotas", "acls", "voters")


def views(directory: Path) -> dict[str, tuple[int, int]]:
    """How each view ends, and how many lines it has."""
    found = {}
    for name in VIEWS:
        result = CliRunner().invoke(main, ["cat", str(directory.parent), f".kafkafs/cluster/{name}"])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        found[name] = result.exit_code, result.stdout.count("\n")
    return found


def test_a_torn_metadata_log_shows_what_is_before_the_tear(cluster: Path) -> None:
    whole = views(cluster)
    (log,) = cluster.glob("*.log")
    for snapshot in cluster.glob("*.checkpoint"):
        snapshot.unlink()
    complete = views(cluster)
    data = log.read_bytes()
    chance = random.Random(13)
    for _ in range(6):
        log.write_bytes(data[: chance.randrange(len(data))])
        assert {code for code, _ in views(cluster).values()} == {0}  # the end of a log that is being written
        place = chance.randrange(len(data))
        log.write_bytes(data[:place] + chance.randbytes(40) + data[place + 40 :])
        torn = views(cluster)
        assert {code for code, _ in torn.values()} <= {0, 3}
        assert all(lines <= max(whole[name][1], complete[name][1]) for name, (_, lines) in torn.items())


@pytest.mark.parametrize("kind", ["directory", "fifo", "link", "empty", "noise", "cut", "huge"])
def test_a_snapshot_that_is_none_is_passed_over(cluster: Path, kind: str) -> None:
    expected = views(cluster)
    end = max(int(path.name.partition("-")[0]) for path in cluster.glob("*.checkpoint"))
    source = max(cluster.glob("*.checkpoint"))
    # It is newer than all others, and the log goes on where it ends.
    lie = cluster / f"{end + 1:020}-{1:010}.checkpoint"
    match kind:
        case "directory":
            lie.mkdir()
        case "fifo":
            os.mkfifo(lie)
        case "link":
            lie.symlink_to("/etc/passwd")
        case "empty":
            lie.touch()
        case "noise":
            lie.write_bytes(random.Random(1).randbytes(5000))
        case "cut":
            lie.write_bytes(source.read_bytes()[:-20])
        case "huge":
            lie.touch()
            os.truncate(lie, 1 << 40)
    assert views(cluster) == expected


def test_a_snapshot_that_lies_is_believed_and_harms_nothing(cluster: Path) -> None:
    """A broker would believe it too: it is whole, and says of partitions, leaders and settings what cannot be."""
    for path in cluster.glob("*.checkpoint"):
        path.unlink()
    topic = {"name": "../../etc\n\x1b", "topicId": TOPIC_ID}
    records = [
        metadata.encode(2, 0, topic),
        metadata.encode(2, 0, {"name": "twin", "topicId": TOPIC_ID}),
        metadata.encode(3, 0, {"partitionId": 2**31 - 1, "topicId": TOPIC_ID, "leader": -7, "replicas": [-1] * 1000}),
        metadata.encode(3, 0, {"partitionId": -1, "topicId": UUID(int=9)}),
        metadata.encode(4, 0, {"resourceType": 99, "resourceName": "\udcff", "name": "a\nb", "value": "\0\t"}),
        metadata.encode(12, 0, {"name": "metadata.version", "featureLevel": 32767}),
        metadata.encode(9, 0, {"topicId": UUID(int=99)}),
        b"\1\x7f\0",
        b"",
    ]
    source = batches_of_rows([(TIME_MS, None, value, ()) for value in records], base_offset=0)
    lie = cluster / f"{0:020}-{0:010}.checkpoint"
    lie.write_bytes(b"".join(map(bytes, source)))
    assert {code for code, _ in views(cluster).values()} == {0}
    log = next(cluster.glob("*.log"))
    log.write_bytes(b"".join(map(bytes, batches_of_rows([(TIME_MS, None, v, ()) for v in records], base_offset=0))))
    told = views(cluster)
    assert {code for code, _ in told.values()} == {0}
    assert told["topics"][1] >= 2
    printed = CliRunner().invoke(main, ["cat", str(cluster.parent), ".kafkafs/cluster/topics"]).stdout
    assert "\x1b" not in printed


def test_a_metadata_transaction_that_never_ends_changes_nothing(cluster: Path) -> None:
    for path in cluster.glob("*.checkpoint"):
        path.unlink()
    first = [metadata.encode(2, 0, {"name": "seen", "topicId": TOPIC_ID}), metadata.encode(23, 0, {"name": "open"})]
    never = (
        metadata.encode(2, 0, {"name": f"never-{number}", "topicId": UUID(int=number + 100)})
        for number in range(50_000)
    )
    rows = [(TIME_MS, None, value, ()) for value in (*first, *never)]
    next(cluster.glob("*.log")).write_bytes(
        b"".join(map(bytes, batches_of_rows(rows, base_offset=0, max_bytes=1 << 19)))
    )
    printed = CliRunner().invoke(main, ["cat", str(cluster.parent), ".kafkafs/cluster/topics"])
    assert (printed.exit_code, [line.split("\t")[0] for line in printed.stdout.splitlines()]) == (0, ["topic", "seen"])
