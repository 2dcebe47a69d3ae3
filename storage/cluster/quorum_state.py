"""`quorum-state`: what a controller or broker remembers of the elections of its KRaft cluster, and of its voters.

The file lies beside the cluster's metadata log. A node does not start if the file is there and cannot be read.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from storage.errors import CorruptMetadataError, InvalidIdError
from storage.files import PROPERTIES_BYTES_MAX
from storage.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from storage.files import Directory

QUORUM_STATE_NAME: Final = "quorum-state"

_VERSION_FIELD: Final = "data_version"


class QuorumState(NamedTuple):
    """The node's knowledge when it wrote the file last.

    `leader_id` is -1 while it knew of none. `voter_ids` are those of a static quorum, in the order of the nodes'
    settings; there are none where voters are records of the metadata log.
    """

    leader_id: int
    leader_epoch: int
    voter_ids: tuple[int, ...]


def read_quorum_state(directory: Directory) -> QuorumState | None:
    """Read the directory's file, None if it is missing; raises `CorruptMetadataError` for one that no broker reads.

    As in a broker, only the first line counts, and fields that its version does not have are passed over.
    """
    try:
        data = directory.read_small(QUORUM_STATE_NAME, CorruptMetadataError, PROPERTIES_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        state = _checked(data)
    except CorruptMetadataError as error:
        raise error.located(path=directory.path_of(QUORUM_STATE_NAME)) from None
    voters = state.get("currentVoters") if state[_VERSION_FIELD] == 0 else None
    return QuorumState(state["leaderId"], state["leaderEpoch"], tuple(each["voterId"] for each in voters or ()))


def _checked(data: bytes) -> Mapping[str, Any]:
    line = data.decode("utf-8", "replace").partition("\n")[0]
    try:
        state, _ = json.JSONDecoder().raw_decode(line.lstrip(" \t\r"))
    except (ValueError, RecursionError):
        raise CorruptMetadataError("the file does not begin with a JSON object") from None
    if not isinstance(state, dict):
        raise CorruptMetadataError("the file does not begin with a JSON object")
    version = state.get(_VERSION_FIELD)
    if not isinstance(version, int) or not _is_integer(version, 16):
        raise CorruptMetadataError(f"its {_VERSION_FIELD} is {_shown(state, _VERSION_FIELD)}, not a number")
    if version not in _FIELDS:
        raise CorruptMetadataError(f"its {_VERSION_FIELD} is {version}, known are 0 and 1")
    for name, (is_right, kind) in _FIELDS[version].items():
        if name not in state or not is_right(state[name]):
            raise CorruptMetadataError(f"its {name} is {_shown(state, name)}, not {kind}")
    return state


def _shown(state: Mapping[str, Any], name: str) -> str:
    if name not in state:
        return "missing"
    try:
        return json.dumps(state[name])[:100]
    except RecursionError:  # writing it takes a little more of the stack than reading it
        return "nested too deeply"


def _is_integer(value: object, bits: int) -> bool:
    return type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


def _is_int32(value: object) -> bool:
    return _is_integer(value, 32)


def _is_int64(value: object) -> bool:
    return _is_integer(value, 64)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and parse_id(value) is not None
    except InvalidIdError:
        return False


def _are_voters(value: object) -> bool:
    """True if the value is a list of voters; no voters at all are null."""
    if value is None:
        return True
    return isinstance(value, list) and all(isinstance(each, dict) and _is_int32(each.get("voterId")) for each in value)


_INT32: Final = (_is_int32, "a number of 32 bits")
_COMMON: Final = {"leaderId": _INT32, "leaderEpoch": _INT32, "votedId": _INT32}
_FIELDS: Final[Mapping[int, Mapping[str, tuple[Callable[[object], bool], str]]]] = {
    0: {
        "clusterId": (_is_text, "a text"),
        **_COMMON,
        "appliedOffset": (_is_int64, "a number of 64 bits"),
        "currentVoters": (_are_voters, "a list of voters"),
    },
    1: {**_COMMON, "votedDirectoryId": (_is_id, "an id")},
}
