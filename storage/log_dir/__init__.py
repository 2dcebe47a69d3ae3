"""One log directory: which broker it belongs to, how it was closed, and what stands in it."""

from __future__ import annotations

from storage.log_dir.apart import home_of, places_above
from storage.log_dir.checkpoints import OffsetCheckpoint, Partition, read_offsets, write_offsets
from storage.log_dir.creation import are_vacant, make_directories
from storage.log_dir.inventory import Inventory
from storage.log_dir.log_dir import LogDir, clean_marker, distinct_log_dirs
from storage.log_dir.meta_properties import (
    META_PROPERTIES_NAME,
    MetaProperties,
    check_one_cluster,
    read_meta_properties,
    write_meta_properties,
)
from storage.log_dir.names import (
    BROKERS_OWN,
    CLUSTER_METADATA,
    COMPACTED_BY_BROKERS,
    DirectoryName,
    DirectoryState,
    is_topic_name,
    parse_directory_name,
)
from storage.log_dir.recognition import (
    BACKUPS_NAME,
    CLEAN_MARKER_NAME,
    LOCK_NAME,
    LOST_AND_FOUND,
    REVIVING_NAME,
    RUN_MANIFEST_NAME,
    check_revived,
    check_stores,
)
from storage.log_dir.removals import Doomed
from storage.log_dir.settings_file import (
    SETTINGS_NAME,
    KnownTopic,
    read_server_properties,
    read_settings_file,
    write_settings_file,
)

__all__ = [
    "BACKUPS_NAME",
    "BROKERS_OWN",
    "CLEAN_MARKER_NAME",
    "CLUSTER_METADATA",
    "COMPACTED_BY_BROKERS",
    "LOCK_NAME",
    "LOST_AND_FOUND",
    "META_PROPERTIES_NAME",
    "REVIVING_NAME",
    "RUN_MANIFEST_NAME",
    "SETTINGS_NAME",
    "DirectoryName",
    "DirectoryState",
    "Doomed",
    "Inventory",
    "KnownTopic",
    "LogDir",
    "MetaProperties",
    "OffsetCheckpoint",
    "Partition",
    "are_vacant",
    "check_one_cluster",
    "check_revived",
    "check_stores",
    "clean_marker",
    "distinct_log_dirs",
    "home_of",
    "is_topic_name",
    "make_directories",
    "parse_directory_name",
    "places_above",
    "read_meta_properties",
    "read_offsets",
    "read_server_properties",
    "read_settings_file",
    "write_meta_properties",
    "write_offsets",
    "write_settings_file",
]
