"""The data source `kafkafs` of Spark. Importing this loads only what Spark has loaded anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class KafkafsSource(DataSource):
    """A store, read and written as Spark's own Kafka source and sink read and write a cluster."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafkafs"

    def __init__(self, options: dict[str, str]) -> None:
        """Take the options of a query or of a write; raises `OptionError` for a query that they cannot have."""
        from kafkafs.spark.options import check_options

        super().__init__(options)
        check_options(options)

    def schema(self) -> StructType:
        """Return the columns of a query that does not choose any."""
        from kafkafs.spark.options import includes_headers
        from kafkafs.spark.schema import source_schema

        return source_schema(has_headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        from kafkafs.spark.readers import StoreReader

        return StoreReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's name
        """Return the reader of a streaming query."""
        from kafkafs.spark.readers import StoreStreamReader

        return StoreStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame."""
        from kafkafs.spark.sink import StoreWriter

        return StoreWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a streaming query's batches."""
        from kafkafs.spark.sink import StoreStreamWriter

        return StoreStreamWriter(self.options, schema, overwrite=overwrite)
