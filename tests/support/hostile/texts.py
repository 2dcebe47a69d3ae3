"""The small files of a store as they should be, each with what reads it, and pieces that parsers stumble over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hostile.commits import staged_file
from storage.cluster.quorum_state import read_quorum_state
from storage.commit.ledger import Ledger
from storage.commit.staged_file import StagedFile
from storage.errors import StorageError
from storage.files import Files
from storage.log.epochs import LeaderEpochs
from storage.log.partition_metadata import read_topic_id
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.log_dir import LogDir
from storage.log_dir.meta_properties import read_meta_properties
from storage.log_dir.settings_file import read_server_properties, read_settings_file
from storage.rewrite.store_builder import _begun_before, _read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from storage.files import Directory

REASON_BYTES_MAX: Final = 1000
ID: Final = "FZcRwMEXQEaBnPVmRVSXyQ"
STAGED: Final = f"kafkafs-staged-{1:032x}"

JSON_TEXTS: Final[dict[str, tuple[dict[str, Any], Callable[[Directory], object]]]] = {
    "kafkafs-commits.json": (
        {
            "version": 1,
            "sequence": 3,
            "applied": {"app": 1},
            "pending": {
                "transaction": ["app", 2],
                "staged": [STAGED],
                "extents": [["t", 0, ID, 0, 5]],
                "checksums": ["AAAAAA=="],
            },
        },
        lambda directory: Ledger([directory]).current,
    ),
    "quorum-state": (
        {
            "data_version": 0,
            "clusterId": "",
            "leaderId": 1,
            "leaderEpoch": 2,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": 1}],
        },
        read_quorum_state,
    ),
    STAGED: (
        {"topics": [["t", 1, ID, False]], "runs": [["t", 0, 0, 0, 0]]},
        lambda directory: StagedFile(directory, STAGED),
    ),
    "kafkafs-building.json": (
        {"run": "r", "begunMs": 1, "purpose": {}, "topics": {}},
        lambda directory: (_read(directory, "kafkafs-building.json"), _begun_before(directory, {})),
    ),
}

TEXTS: Final[dict[str, tuple[bytes, Callable[[Directory], object]]]] = {
    "leader-epoch-checkpoint": (b"0\n2\n0 0\n3 17\n", LeaderEpochs.load),
    **{
        each.value: (b"0\n2\nt 0 17\nother 1 5\n", lambda directory, each=each: read_offsets(directory, each))
        for each in OffsetCheckpoint
    },
    "meta.properties": (
        f"#\n#date\nnode.id=1\ndirectory.id={ID}\nversion=1\ncluster.id=c\n".encode(),
        lambda directory: (read_meta_properties(directory), LogDir(directory)),
    ),
    "partition.metadata": (f"version: 0\ntopic_id: {ID}".encode(), read_topic_id),
    ".kafka_cleanshutdown": (
        b'{"version":0,"brokerEpoch":-1}',
        lambda directory: LogDir(directory).read_clean_marker(),
    ),
    "kafkafs-topics.properties": (
        f"/version=1\n/made=true\nt/topic.id={ID}\nt/retention.ms=5\n/void/t-1=\n".encode(),
        read_settings_file,
    ),
    "server.properties": (
        b"log.retention.ms=5\nlog.cleaner.min.cleanable.ratio=0.5\nlog.cleanup.policy=compact , delete\n",
        lambda directory: read_server_properties(Files(), directory.path_of("server.properties")),  # type: ignore[arg-type]
    ),
}

TOKENS: Final = (
    b"1e400", b"-1", b"NaN", b"Infinity", b"9" * 25, b"9" * 5000, b'"\\ud800"', b"\\uD800", b"[" * 50_000,
    b'{"a":' * 50_000, b"null", b"true", b"{}", b"[]", b"\xff", b"\0", b"\x1b[31m", b"\n", b"\r", b"\\", b"=", b"/",
    b" " * 2000, b"2147483648", b"9223372036854775808", b"-9223372036854775809", b"\\u12", b"1.5", b"\xc2\x85", b"..",
)  # fmt: skip


def mutated(data: bytes, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Return the data with bytes put in the place of others; a change is a position, a number of bytes, and these."""
    for position, length, put in changes:
        at = position % (len(data) + 1)
        data = data[:at] + put + data[at + length :]
    return data


def replaced(value: Any, path: Sequence[int], put: object) -> Any:
    """Return the value with what lies at a path through it replaced."""
    if not path or not isinstance(value, list | dict) or not value:
        return put
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = keys[path[0] % len(keys)]
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = replaced(value[key], path[1:], put)
    return copy


def stored(name: str, data: bytes) -> bytes:
    """Return the bytes of a file with this text: of a staged file it is the index."""
    return staged_file(data) if name == STAGED else data


def place(directory: Directory, name: str) -> Directory:
    """Return the directory of a file's own."""
    found = directory.at(name)
    if found.own_status() is None:
        found.make()
    return found


def outcome(directory: Directory, name: str, data: bytes, read: Callable[[Directory], object]) -> StorageError | None:
    """Write a file and read it; returns why it is refused, which has a path and can be printed on a line."""
    with open(directory.path_of(name), "wb") as file:  # noqa: PTH123 -- quicker, a hundred thousand times
        file.write(data)
    try:
        read(directory)
    except StorageError as error:
        said = str(error).encode(errors="backslashreplace")
        if error.path is None or len(said) > REASON_BYTES_MAX or "\ud800" in str(error):
            raise AssertionError(f"{error!r}"[: 2 * REASON_BYTES_MAX]) from error
        return error
    return None
