"""`meta.properties`: which node of which cluster a log directory belongs to, and the directory's own id.

Version 0 is what brokers with ZooKeeper write, version 1 what KRaft brokers write; a broker starts only on directories
that agree on cluster and node.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.checkpoint_text import integer
from storage.errors import ConfigError, CorruptMetadataError, InvalidIdError
from storage.ids import format_id, is_reserved, parse_id
from storage.properties_text import format_properties, parse_properties
from storage.small_file import replace_file

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from uuid import UUID

    from storage.files import Files

META_PROPERTIES_NAME: Final = "meta.properties"

_ENCODING: Final = "latin-1"  # of all files that Java reads as properties
_NODE_ID_KEYS: Final = {0: "broker.id", 1: "node.id"}


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What the file says; version 1 always has a cluster and a node."""

    version: int
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: UUID | None = None


def read_meta_properties(files: Files, directory: str | os.PathLike[str]) -> MetaProperties | None:
    """What the directory's file says; None if there is none. Raises `CorruptMetadataError`."""
    path = Path(directory) / META_PROPERTIES_NAME
    try:
        data = files.read(path)
    except FileNotFoundError:
        return None
    try:
        return _meta_properties(parse_properties(data.decode(_ENCODING)))
    except CorruptMetadataError as error:
        raise error.located(path=path) from None
    except ConfigError as error:
        raise CorruptMetadataError(error.reason, path=path) from None


def write_meta_properties(
    files: Files, directory: str | os.PathLike[str], properties: MetaProperties, now_ms: int
) -> None:
    """Replace the directory's file, in one step and durably, with the text and the date that a broker would write."""
    values = {
        _NODE_ID_KEYS[properties.version]: properties.node_id,
        "directory.id": None if properties.directory_id is None else format_id(properties.directory_id),
        "version": properties.version,
        "cluster.id": properties.cluster_id,
    }
    written = {key: str(value) for key, value in values.items() if value is not None}
    date = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    text = format_properties(written, ("", date))
    replace_file(files, Path(directory) / META_PROPERTIES_NAME, text.encode(_ENCODING))


def check_agreement(found: Mapping[str, MetaProperties]) -> None:
    """Raise `CorruptMetadataError` unless these directories, by their paths, can be one broker's."""
    _check_common("cluster", {path: properties.cluster_id for path, properties in found.items()})
    _check_common("node", {path: properties.node_id for path, properties in found.items()})
    owners: dict[UUID, str] = {}
    for path, properties in found.items():
        if properties.directory_id is not None:
            owner = owners.setdefault(properties.directory_id, path)
            if owner != path:
                raise CorruptMetadataError(f"the directory has the same id as {owner}", path=path)


def _check_common(kind: str, found: Mapping[str, object]) -> None:
    known = {path: value for path, value in found.items() if value is not None}
    for path, value in known.items():
        first_path, first = next(iter(known.items()))
        if value != first:
            raise CorruptMetadataError(f"the directory is of {kind} {value}, {first_path} of {first}", path=path)


def _meta_properties(values: Mapping[str, str]) -> MetaProperties:
    version = _integer("version", values.get("version", "0"))
    if version not in _NODE_ID_KEYS:
        raise CorruptMetadataError(f"the version of {META_PROPERTIES_NAME} is {version}, known are 0 and 1")
    node_id = values.get(_NODE_ID_KEYS[version])
    cluster_id = values.get("cluster.id")
    directory_id = values.get("directory.id")
    if version == 1 and (node_id is None or cluster_id is None):
        raise CorruptMetadataError(f"{'node.id' if node_id is None else 'cluster.id'} is missing")
    return MetaProperties(
        version,
        cluster_id,
        None if node_id is None else _integer(_NODE_ID_KEYS[version], node_id),
        None if directory_id is None else _directory_id(directory_id),
    )


def _directory_id(text: str) -> UUID:
    try:
        value = parse_id(text)
    except InvalidIdError as error:
        raise CorruptMetadataError(f"directory.id {error.reason}") from None
    if is_reserved(value):
        raise CorruptMetadataError(f"directory.id is {text}, which is reserved")
    return value


def _integer(key: str, text: str) -> int:
    try:
        return integer(text, bits=32)
    except ValueError:
        raise CorruptMetadataError(f"{key} is {text[:100]!r}, not a number") from None
