"""Registers exported files with a table of Delta Lake or Iceberg, which reads them where they are.

A file that the table has is not added again, so the call can be repeated.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from kafkafs.spark.errors import JobError, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from kafkafs.spark.jobs.export_target import ExportedFile

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
TABLES: Final = (DELTA, ICEBERG)
_DIRECTORIES: Final = ("topic", "date")
_INSTALL: Final = "run `pip install 'kafkafs[lake]'`"


class Registration(Protocol):
    """A kind of table."""

    def register(self, root: Path, files: Sequence[ExportedFile], schema: pa.Schema) -> None:
        """Add these files of a directory to tables, and make missing tables."""


def registration(table: str, catalog: str, namespace: str) -> Registration:
    """Return the registration for `table`; raises `JobError` if its package is not installed."""
    if table == DELTA:
        try:
            import deltalake  # noqa: F401 -- to fail before the export, not after it
        except ImportError:
            raise JobError(f"--table delta needs deltalake: {_INSTALL}") from None
        return _Delta()
    if table == ICEBERG:
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError:
            raise JobError(f"--table iceberg needs pyiceberg: {_INSTALL}") from None
        try:
            return _Iceberg(load_catalog(catalog), namespace)
        except Exception as error:  # noqa: BLE001 -- catalogs raise what they like
            raise JobError(f"the Iceberg catalog {catalog!r} cannot be used: {error}") from None
    raise OptionError(f"table is one of {', '.join(TABLES)}, not {table!r}")


class _Delta:
    """One table in the directory itself."""

    def register(self, root: Path, files: Sequence[ExportedFile], schema: pa.Schema) -> None:
        from deltalake import DeltaTable, Schema
        from deltalake.transaction import AddAction, create_table_with_add_actions

        whole = Schema.from_arrow(schema.append(pa.field("topic", pa.string())).append(pa.field("date", pa.date32())))
        table = DeltaTable(root) if DeltaTable.is_deltatable(str(root)) else None
        known = set() if table is None else {path.rpartition("/")[2] for path in table.file_uris()}
        actions: list[AddAction] = []
        for file in files:
            path = root / file.path
            if path.name not in known:
                status = path.stat()
                values = {"topic": file.topic, "date": file.date}
                stats = json.dumps({"numRecords": _records(path)})
                actions.append(AddAction(file.path, status.st_size, values, status.st_mtime_ns // 10**6, True, stats))
        if table is None:
            create_table_with_add_actions(str(root), whole, actions, partition_by=list(_DIRECTORIES))
        elif actions:
            table.create_write_transaction([*actions], "append", whole, list(_DIRECTORIES))


class _Iceberg:
    """A table for each topic, which has its name, partitioned by the days of timestamps."""

    def __init__(self, catalog: Catalog, namespace: str) -> None:
        self._catalog = catalog
        self._namespace = namespace

    def register(self, root: Path, files: Sequence[ExportedFile], schema: pa.Schema) -> None:
        self._catalog.create_namespace_if_not_exists(self._namespace)
        for topic in dict.fromkeys(file.topic for file in files):
            table = self._table(topic, schema)
            known = set(table.inspect.files().column("file_path").to_pylist())
            uris = [f"file://{root / file.path}" for file in files if file.topic == topic]
            if new := [uri for uri in uris if uri not in known]:
                table.add_files(new)

    def _table(self, topic: str, schema: pa.Schema) -> Table:
        from pyiceberg.transforms import DayTransform

        identifier = (self._namespace, topic)
        if self._catalog.table_exists(identifier):
            return self._catalog.load_table(identifier)
        with self._catalog.create_table_transaction(identifier, schema) as making, making.update_spec() as spec:
            spec.add_field("timestamp", DayTransform(), "timestamp_day")
        return self._catalog.load_table(identifier)


def _records(path: Path) -> int:
    from pyarrow import parquet

    return int(parquet.read_metadata(path).num_rows)
