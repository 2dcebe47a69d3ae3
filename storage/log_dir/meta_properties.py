"""`meta.properties`: which node of which cluster a log directory belongs to, and the directory's own id.

Version 0 is what brokers with ZooKeeper write, version 1 what KRaft brokers write; a broker starts only on directories
that agree on cluster and node.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from storage.checkpoint_text import integer
from storage.errors import ConfigError, CorruptMetadataError, InvalidIdError
from storage.files import PROPERTIES_BYTES_MAX
from storage.ids import format_id, is_reserved, parse_id
from storage.properties import format_properties, parse_properties

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from uuid import UUID

    from storage.files import Directory

META_PROPERTIES_NAME: Final = "meta.properties"
KRAFT_VERSION: Final = 1
"""The version of the file that a KRaft broker writes."""

_ENCODING: Final = "latin-1"  # of all files that Java reads as properties
_NODE_ID_KEYS: Final = {0: "broker.id", 1: "node.id"}


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The contents of the file; version 1 always has a cluster and a node."""

    version: int
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: UUID | None = None


def read_meta_properties(directory: Directory) -> MetaProperties | None:
    """Read the directory's file, None if it is missing. Raises `CorruptMetadataError`."""
    path = directory.path_of(META_PROPERTIES_NAME)
    try:
        data = directory.read_small(META_PROPERTIES_NAME, CorruptMetadataError, PROPERTIES_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        return _meta_properties(parse_properties(data.decode(_ENCODING)))
    except CorruptMetadataError as error:
        raise error.located(path=path) from None
    except ConfigError as error:
        raise CorruptMetadataError(error.reason, path=path) from None


def write_meta_properties(directory: Directory, properties: MetaProperties, now_ms: int) -> None:
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
    directory.replace(META_PROPERTIES_NAME, text.encode(_ENCODING))


def check_agreement(found: Mapping[str, MetaProperties]) -> None:
    """Raise `CorruptMetadataError` unless these directories, by their paths, can be one broker's."""
    for path, reason in disagreements(found):
        raise CorruptMetadataError(reason, path=path)


def check_one_cluster(found: Mapping[str, MetaProperties]) -> None:
    """Raise `CorruptMetadataError` unless these directories, by their paths, can be of brokers of one cluster."""
    for path, reason in _of_other_clusters(found):
        raise CorruptMetadataError(reason, path=path)


def disagreements(found: Mapping[str, MetaProperties]) -> Iterator[tuple[str, str]]:
    """Each directory, by its path, that cannot be of one broker with most of the others, and the reason."""
    yield from _of_other_clusters(found)
    yield from _disagreeing("node", {path: properties.node_id for path, properties in found.items()})
    owners: dict[UUID, str] = {}
    for path, properties in found.items():
        if properties.directory_id is not None:
            owner = owners.setdefault(properties.directory_id, path)
            if owner != path:
                yield path, f"the directory has the same id as {owner}"


def startup_flaw(properties: MetaProperties) -> str | None:
    """Return why no broker starts on the directory although the file can be read; None if one does.

    The file of a broker with ZooKeeper may lack the cluster, as brokers before 2.4 do not write it.
    """
    key = _NODE_ID_KEYS[properties.version]
    if properties.node_id is None:
        return f"{key} is missing"
    return f"{key} is {properties.node_id}, below 0" if properties.node_id < 0 else None


def _of_other_clusters(found: Mapping[str, MetaProperties]) -> Iterator[tuple[str, str]]:
    return _disagreeing("cluster", {path: properties.cluster_id for path, properties in found.items()})


def _disagreeing(kind: str, found: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    known = {path: value for path, value in found.items() if value is not None}
    if not known:
        return
    ((usual, _),) = Counter(known.values()).most_common(1)
    usual_path = next(path for path, value in known.items() if value == usual)
    for path, value in known.items():
        if value != usual:
            yield path, f"the directory is of {kind} {value}, {usual_path} of {usual}"


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
