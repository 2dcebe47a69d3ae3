"""What a cleaner writes of one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from storage.segment.index.txn import AbortedTransaction


class KeptBatch(NamedTuple):
    """The bytes that are kept of a batch, and what the transaction index of their segment says of it."""

    data: Buffer
    is_unchanged: bool
    aborted: AbortedTransaction | None = None
