from typing import final

from typing_extensions import Buffer

from storage.record.kernel.walk import BatchFrame

@final
class RecordsSummary:
    @property
    def min_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def keyless(self) -> int: ...
    @property
    def is_consecutive(self) -> bool: ...

def summarize_records(batch: BatchFrame, records_data: Buffer | None = None) -> RecordsSummary: ...
