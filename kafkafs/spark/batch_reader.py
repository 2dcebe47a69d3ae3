"""A batch query: ranges of offsets that are fixed when it is planned."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkafs.spark.bounds import NoMatch
from kafkafs.spark.opened_store import OpenedStore
from kafkafs.spark.options import BatchOptions
from kafkafs.spark.reading import read_splits
from kafkafs.spark.schema import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType


class StoreReader(DataSourceReader):
    """Reads a store once; raises `OptionError` for options or a schema that cannot be."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema)
        self._options = BatchOptions.parse(options)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """The splits to be read, at least one list of them, however empty: Spark would make up something else."""
        options = self._options.store
        with closing(OpenedStore(options)) as store:
            partitions = store.partitions(must_exist=True)
            starts = store.resolve(options.starting, partitions, options.no_match)
            ends = store.resolve(self._options.ending, partitions, NoMatch.LATEST)
            packs = store.packs({each: (starts[each], ends[each]) for each in starts if each in ends})
        return [InputPartition(pack) for pack in packs or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one of them."""
        return read_splits(partition.value, self._schema, self._options.store)
