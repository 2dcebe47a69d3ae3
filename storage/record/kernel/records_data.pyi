from typing import final

from typing_extensions import Buffer

from storage.record.kernel.summary import RecordsSummary

__pyx_capi__: dict[str, object]

@final
class RecordsData(Buffer):
    @property
    def count(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def stop(self) -> int: ...
    def __len__(self) -> int: ...

@final
class EncodedBatch(Buffer):
    def __init__(self, sealed: bytes, records_data: RecordsData) -> None: ...
    @property
    def data(self) -> bytes: ...
    @property
    def summary(self) -> RecordsSummary: ...
    def __len__(self) -> int: ...

def seal(
    records_data: RecordsData | Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes: ...
def patch_offset(target: Buffer, base_offset: int, leader_epoch: int) -> None: ...
