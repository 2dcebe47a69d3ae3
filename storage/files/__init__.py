"""Every operation on files that storage performs, on objects that callers receive."""

from storage.files.bound import bound
from storage.files.copying import FileRange, copied_bits, copy_ranges, shared_bits
from storage.files.directory import TEMPORARY_SUFFIX, Directory
from storage.files.held import HeldFile, LastUsed
from storage.files.limits import CHECKPOINT_BYTES_MAX, PROPERTIES_BYTES_MAX, SNAPSHOT_BYTES_MAX
from storage.files.listed import LARGE_DIRECTORY_BYTES, check_may_list
from storage.files.lock import FileLock
from storage.files.opened import Access, FileRegion, FileStatus, ReadableFile, WritableFile, access_of
from storage.files.overlay import OverlayDirectory
from storage.files.system import Files, NamedFiles, PrivateFiles, read_small_file, replace_file
from storage.files.turns import free, in_order, taking_turns
from storage.files.uris import absolute_path, as_uri, is_in_object_store, plain_path, store_path

__all__ = [
    "CHECKPOINT_BYTES_MAX",
    "LARGE_DIRECTORY_BYTES",
    "PROPERTIES_BYTES_MAX",
    "SNAPSHOT_BYTES_MAX",
    "TEMPORARY_SUFFIX",
    "Access",
    "Directory",
    "FileLock",
    "FileRange",
    "FileRegion",
    "FileStatus",
    "Files",
    "HeldFile",
    "LastUsed",
    "NamedFiles",
    "OverlayDirectory",
    "PrivateFiles",
    "ReadableFile",
    "WritableFile",
    "absolute_path",
    "access_of",
    "as_uri",
    "bound",
    "check_may_list",
    "copied_bits",
    "copy_ranges",
    "free",
    "in_order",
    "is_in_object_store",
    "plain_path",
    "read_small_file",
    "replace_file",
    "shared_bits",
    "store_path",
    "taking_turns",
]
