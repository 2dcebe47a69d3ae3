from typing_extensions import Buffer

from storage.record.kernel.walk import BatchFrame

def envelope_lines(batch: BatchFrame, records_data: Buffer, beginning: bytes) -> bytes: ...
def envelope_lines_size(batch: BatchFrame, records_data: Buffer, beginning: bytes) -> int: ...
def envelope_run_size(
    first: BatchFrame,
    end_position: int,
    end_offset: int,
    with_transactions: bool,
    beginning: bytes,
    *,
    line_bytes_max: int = ...,
) -> tuple[int, int, int]: ...
def json_member(beginning: bytes, data: bytes | None, colon: bytes) -> bytes: ...
