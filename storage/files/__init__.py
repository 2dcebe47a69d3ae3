"""Every operation on files that storage performs, on objects that callers receive."""

from storage.files.directory import TEMPORARY_SUFFIX, Directory
from storage.files.limits import CHECKPOINT_BYTES_MAX, PROPERTIES_BYTES_MAX, SNAPSHOT_BYTES_MAX
from storage.files.opened import Access, FileLock, FileStatus, MappedRegion, ReadableFile, WritableFile, access_of
from storage.files.overlay import OverlayDirectory
from storage.files.system import Files, NamedFiles, PrivateFiles, read_small_file, replace_file

__all__ = [
    "CHECKPOINT_BYTES_MAX",
    "PROPERTIES_BYTES_MAX",
    "SNAPSHOT_BYTES_MAX",
    "TEMPORARY_SUFFIX",
    "Access",
    "Directory",
    "FileLock",
    "FileStatus",
    "Files",
    "MappedRegion",
    "NamedFiles",
    "OverlayDirectory",
    "PrivateFiles",
    "ReadableFile",
    "WritableFile",
    "access_of",
    "read_small_file",
    "replace_file",
]
