"""Bytes as JSON: the text of a string if they are UTF-8, otherwise base64.

Both are written without quotes. Those who look for text are told how far memory may be read: they read blocks, which
may go beyond the bytes.
"""

from libc.stdint cimport int64_t, uint8_t

from storage.record.kernel.wire cimport Bytes

cdef extern from "json_text.h":
    enum:
        SLACK "KFS_JSON_SLACK"
        NO_TEXT "KFS_JSON_NO_TEXT"
        NO_ROOM "KFS_JSON_NO_ROOM"
    # The size of the text, or NO_TEXT.
    int64_t text_size "kfs_json_text_size"(Bytes data, int64_t size, Bytes readable) noexcept nogil
    # 0, NO_TEXT or NO_ROOM. Writing goes no further than SLACK bytes beyond the limit.
    int put_text "kfs_put_json_text"(
        uint8_t** target, const uint8_t* limit, Bytes data, int64_t size, Bytes readable
    ) noexcept nogil
    # Call this once before base64 is written.
    void make_base64 "kfs_make_base64"() noexcept nogil
    int64_t base64_size "kfs_base64_size"(int64_t size) noexcept nogil
    uint8_t* put_base64 "kfs_put_base64"(uint8_t* target, Bytes data, int64_t size) noexcept nogil
