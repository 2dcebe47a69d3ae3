"""The sink: a DataFrame's rows appended to a store as records, exactly once.

Tasks stage finished batches; the driver commits those of the tasks that succeeded. Batches that failed, speculative and
late attempts staged are in no log, and are removed. A repeated write with the same `txnAppId` and `txnVersion`, or an
earlier version, appends nothing to a topic that has it, and neither does a repeated batch of a streaming query.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafkafs.spark.checkpoints import query_id
from kafkafs.spark.errors import OptionError
from kafkafs.spark.options import SinkOptions
from kafkafs.spark.schema import check_columns
from kafkafs.spark.sight import sight_of_log_dirs
from kafkafs.spark.task import settle
from storage.clock import Clock
from storage.commit import Transaction, discard, give_up
from storage.errors import NotAStoreError, StorageError, StoreLockedError
from storage.files import Files
from storage.log_dir import are_vacant
from storage.store import Mode, Staging, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

    from storage.files import Directory

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.1


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):
    """A successful task's message to the driver; None if it had no rows."""

    name: str | None


class _Sink:
    """What batch and streaming writes share; made on the driver, and used there and by tasks."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("Save mode Overwrite not allowed for Kafka. Allowed save mode is append.")
        self._options = SinkOptions.parse(options)
        check_columns(schema, self._options)
        files = Files()
        if are_vacant([files.directory(Path(path)) for path in self._options.paths]):
            Store.create(self._options.paths, files=files, clock=Clock()).close()
        self._sight = sight_of_log_dirs(self._options.paths)

    def _stage(self, batches: Iterator[RecordBatch]) -> StagedMessage:
        from kafkafs.spark.staged_rows import StagedRows

        settle()
        options = self._options
        with (
            self._sight.agreed(),
            Store.open(options.paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store,
            Staging(store, Clock(), codec=options.codec, new_topics=options.makes_topics) as staging,
        ):
            rows = StagedRows(staging, options.topic, Clock())
            for batch in batches:
                rows.add(batch)
            staged = staging.finish()
        return StagedMessage(None if staged is None else staged.name)

    def _commit(self, messages: Sequence[WriterCommitMessage | None], transaction: Transaction | None) -> None:
        names = _names(messages)
        if not names and transaction is None:
            return
        topics = () if self._options.topic is None else (self._options.topic,)
        try:
            with self._opened() as store:
                if store.commits.commit(names, transaction, topics) and transaction is not None:
                    logger.info(
                        "version %d of the application %r is appended", transaction.version, transaction.application
                    )
        except BaseException:
            with suppress(OSError, StorageError):  # which would stand in the place of the reason for the failure
                give_up(self._directories(), names)
            raise

    def _opened(self) -> Store:
        """Open the store as soon as no other process has it open for writing."""
        given_up_s = time.monotonic() + self._options.lock_timeout_ms / 1000
        while True:
            try:
                return Store.open(self._options.paths, mode=Mode.READ_WRITE, files=Files(), clock=Clock())
            except StoreLockedError:
                if time.monotonic() > given_up_s:
                    raise
                time.sleep(_RETRY_S)

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what was staged, except what a half-finished commit needs. A store that is gone has nothing left."""
        with suppress(NotAStoreError):  # which would stand in the place of the reason for the failure
            discard(self._directories(), _names(messages))

    def _directories(self) -> list[Directory]:
        files = Files()
        return [files.directory(Path(path)) for path in self._options.paths]


class StoreWriter(_Sink, DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._transaction = self._options.transaction()

    def write(self, iterator: Iterator[RecordBatch]) -> StagedMessage:  # type: ignore[override]
        """Stage the rows of a task."""
        return self._stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append what the tasks staged: all of it, once."""
        self._commit(messages, self._transaction)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks staged."""
        self._abort(messages)


class StoreStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """The batches of a streaming query, recognized by the id in its checkpoint, or by `txnAppId`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        if self._options.application is None and self._options.checkpoint is None:
            raise OptionError(
                "to write each batch once, the query has to be known again: give the option checkpointLocation, or "
                "txnAppId with a name that no other query and no earlier checkpoint has; the setting "
                "spark.sql.streaming.checkpointLocation does not reach a sink"
            )

    def write(self, iterator: Iterator[RecordBatch]) -> StagedMessage:  # type: ignore[override]
        """Stage the rows of a task."""
        return self._stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Append what the tasks of a batch staged, unless the batch is in the store already."""
        query = self._query()
        application = self._options.application or query
        self._commit(messages, Transaction(application, batchId, query))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what the tasks staged."""
        self._abort(messages)

    def _query(self) -> str:
        """Return the query's id in its checkpoint; empty if that cannot be read and the application is given."""
        if self._options.checkpoint is None:
            return ""
        try:
            return query_id(self._options.checkpoint)
        except (OSError, ValueError, LookupError) as error:
            if self._options.application is not None:
                return ""
            raise OptionError(
                f"the query's id cannot be read from the checkpoint {self._options.checkpoint}: "
                f"{' '.join(str(error).split())}; give the option txnAppId with a name that no other query and no "
                "earlier checkpoint has"
            ) from None


def _names(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [message.name for message in messages if isinstance(message, StagedMessage) and message.name is not None]
