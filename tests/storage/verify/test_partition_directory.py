"""What a look through a partition's directory finds beside its segments: snapshots, epochs, leftovers."""

from __future__ import annotations

import struct

from checked_logs import bases, closed_log, damages, findings, replace
from memory_logs import DIRECTORY, LogOnMemory

from storage.log.producers.snapshot import decode_snapshot, encode_snapshot
from storage.record.kernel.crc32c import crc32c
from storage.verify.context import PartitionExpectation
from storage.verify.finding import FindingKind, Severity
from storage.verify.partition import verify_partition

FIRST = "00000000000000000000"


def test_snapshots() -> None:
    log = closed_log()
    names = sorted(name for name in log.contents() if name.endswith(".snapshot"))
    name = names[-1]
    whole = log.contents()[name]
    states = decode_snapshot(whole)
    assert len(states) == 3
    replace(log, name, whole[:-1])
    assert damages(log) == {(FindingKind.SNAPSHOT, name)}
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1
        replace(log, name, bytes(data))
        assert damages(log) == {(FindingKind.SNAPSHOT, name)}
    # Other values under the right checksum.
    entry = struct.Struct(">qhiqiqiq")
    for state in states:
        for field in range(entry.size):
            data = bytearray(encode_snapshot([state])[10:])
            data[field] ^= 1
            others = [other for other in states if other is not state]
            (changed,) = decode_snapshot(with_checksum(bytes(data)))
            replace(log, name, encode_snapshot([*others, changed]))
            is_same = decode_snapshot(encode_snapshot([changed])) == [state]
            assert damages(log) == (set() if is_same else {(FindingKind.SNAPSHOT, name)}), (state, field)
    # Who was silent for long may be missing, unless a transaction is open.
    replace(log, name, encode_snapshot(state for state in states if state.transaction_offset is not None))
    assert damages(log) == set()
    replace(log, name, encode_snapshot(state for state in states if state.transaction_offset is None))
    assert damages(log) == {(FindingKind.SNAPSHOT, name)}


def with_checksum(entries: bytes) -> bytes:
    """A snapshot of one entry."""
    covered = struct.pack(">i", 1) + entries
    return struct.pack(">hI", 1, crc32c(covered)) + covered


def test_missing_snapshots() -> None:
    log = closed_log()
    for name in [name for name in log.contents() if name.endswith(".snapshot")]:
        log.files.remove(f"{DIRECTORY}/{name}")
    missing = {(FindingKind.MISSING_SNAPSHOT, f"{bases(log)[-1]}.snapshot")}
    assert damages(log) == damages(log, is_clean=False) == missing


def test_epochs() -> None:
    log = closed_log()
    name = "leader-epoch-checkpoint"
    for data in (bytes(30), b"0\n2\n1 0\n", b"\xff"):
        replace(log, name, data)
        assert damages(log) == {(FindingKind.EPOCH_CHECKPOINT, name)}
    for text in ("0\n1\n1 0\n", "0\n2\n1 0\n2 193\n", "0\n1\n0 0\n", ""):
        replace(log, name, text.encode())
        assert {kind for kind, _ in damages(log)} == {FindingKind.LEADER_EPOCH}
    replace(log, name, b"0\n3\n1 0\n2 190\n3 1000\n")
    assert FindingKind.LOST_TAIL in {kind for kind, _ in damages(log)}


def test_epochs_that_do_not_ascend() -> None:
    log = closed_log()
    whole = log.files.read(f"{DIRECTORY}/leader-epoch-checkpoint")
    _, _, *lines = whole.decode().splitlines()
    epoch, end = lines[-1].split(" ")[0], 10**6
    for text in (f"{epoch} {end}", lines[-1]):
        replace(log, "leader-epoch-checkpoint", "\n".join(["0", str(len(lines) + 1), *lines, text, ""]).encode())
        (finding,) = findings(log.files)
        assert (finding.severity, finding.kind) == (Severity.NOTICE, FindingKind.EPOCH_CHECKPOINT)
        assert (finding.start_action, finding.reason) == ("nothing", "its epochs and offsets do not ascend")


def test_the_epochs_of_deleted_records_may_be_gone_before_them() -> None:
    log = closed_log()
    replace(log, "leader-epoch-checkpoint", b"0\n0\n")
    end_offset = log.open().view.end_offset
    log.log.close()

    def kinds(start_offset: int) -> set[FindingKind]:
        expected = PartitionExpectation(directory=log.files.directory(DIRECTORY), start_offset=start_offset)
        found = verify_partition(expected, advance=lambda _: None).findings
        return {finding.kind for finding in found}

    assert FindingKind.LEADER_EPOCH in kinds(end_offset - 1)
    assert FindingKind.LEADER_EPOCH not in kinds(end_offset)


def test_partition_metadata() -> None:
    log = closed_log()
    name = "partition.metadata"
    assert damages(log, has_topic_id=True) == {(FindingKind.PARTITION_METADATA, name)}
    replace(log, name, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    assert damages(log) == {(FindingKind.PARTITION_METADATA, name)}
    replace(log, name, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    assert damages(log, has_topic_id=True) == set()


def test_what_a_crash_leaves_of_other_files() -> None:
    log = closed_log()
    data = log.contents()[f"{FIRST}.log"]
    replace(log, f"{FIRST}.log.cleaned", data)
    assert damages(log) == {(FindingKind.INTERRUPTED_REPLACEMENT, f"{FIRST}.log.cleaned")}
    log.files.rename(f"{DIRECTORY}/{FIRST}.log.cleaned", f"{DIRECTORY}/{FIRST}.log.swap")
    assert damages(log) == {(FindingKind.INTERRUPTED_REPLACEMENT, f"{FIRST}.log.swap")}
    log.files.rename(f"{DIRECTORY}/{FIRST}.log.swap", f"{DIRECTORY}/{FIRST}.log.deleted")
    replace(log, "leader-epoch-checkpoint.tmp", b"0")
    replace(log, "what is this", b"?")
    (finding,) = findings(log.files)
    assert (finding.severity, finding.kind, finding.path) == (Severity.NOTICE, FindingKind.LEFT_OVER, "")
    assert finding.reason.endswith(": 2")


def test_indexes_without_a_log() -> None:
    log = closed_log()
    for name in (f"{9:020d}.index", f"{9:020d}.txnindex"):
        replace(log, name, b"12345678")
        assert damages(log) == {(FindingKind.ORPHANED_INDEX, name)}
        replace(log, name, b"")
        (finding,) = findings(log.files)
        assert (finding.severity, finding.kind) == (Severity.NOTICE, FindingKind.ORPHANED_INDEX)
        log.files.remove(f"{DIRECTORY}/{name}")


def test_an_empty_directory_and_one_that_is_gone() -> None:
    files = LogOnMemory().files
    for name in files.names(DIRECTORY):
        files.remove(f"{DIRECTORY}/{name}")
    assert findings(files, has_topic_id=True) == []
    (finding,) = findings(files, reached={"a-checkpoint": 5})
    assert (finding.severity, finding.kind, finding.path) == (Severity.DAMAGE, FindingKind.LOST_TAIL, "")
    files.remove_directory(DIRECTORY)
    assert findings(files) == []
