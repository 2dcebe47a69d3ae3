"""Every operation on files that storage performs, as objects that callers are given."""

from storage.files.system import (
    FileLock,
    Files,
    FileStatus,
    MappedRegion,
    NamedFiles,
    ReadableFile,
    WritableFile,
)

__all__ = ["FileLock", "FileStatus", "Files", "MappedRegion", "NamedFiles", "ReadableFile", "WritableFile"]
