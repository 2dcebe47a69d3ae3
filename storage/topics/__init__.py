"""The topics of a store: which there are, what holds for each, and their open logs."""

from __future__ import annotations

from storage.topics.bare_log_dirs import BareLogDir, bare_directories
from storage.topics.cluster_metadata import ClusterMetadata
from storage.topics.effective_settings import MAY_SET_IT, UNREADABLE
from storage.topics.open_logs import PartitionLog

__all__ = ["MAY_SET_IT", "UNREADABLE", "BareLogDir", "ClusterMetadata", "PartitionLog", "bare_directories"]
