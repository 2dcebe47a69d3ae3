from typing_extensions import Buffer

from storage.record.kernel.records_data import RecordsData

def encode_lines(
    block: Buffer,
    *,
    timestamp: int,
    max_bytes: int,
    start: int = 0,
    include_last: bool = False,
    begun: Buffer = b"",
) -> RecordsData: ...
