"""Registers exported files with a table of Delta Lake or Iceberg, which reads them where they are.

A file that the table has is not added again, so the call can be repeated. The error of a table is one of ours, and says
what to do next.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from kafkafs.spark.errors import JobError, OptionError
from kafkafs.spark.jobs.export_target import NO_DATE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from kafkafs.spark.jobs.export_target import ExportedFile, ExportTarget

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
TABLES: Final = (DELTA, ICEBERG)
_DIRECTORIES: Final = ("topic", "date")
_DELTA_LOG: Final = "_delta_log"
_INSTALL: Final = "run `pip install 'kafkafs[lake]'`"


class Registration(Protocol):
    """A kind of table."""

    def register(self, directory: ExportTarget, schema: pa.Schema) -> None:
        """Add the files of a directory that are not noted as registered to tables, and all of them to a new table.

        Raises `JobError` with what to do next if a table cannot be read or does not take them.
        """


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

    def register(self, directory: ExportTarget, schema: pa.Schema) -> None:
        from deltalake import Schema
        from deltalake.transaction import create_table_with_add_actions

        root = directory.root
        whole = schema.append(pa.field("topic", pa.string())).append(pa.field("date", pa.date32()))
        table = self._table(root)
        try:
            if table is None:
                actions = [_add_action(root, file) for file in directory.files()]
                create_table_with_add_actions(
                    str(root), Schema.from_arrow(whole), actions, partition_by=list(_DIRECTORIES)
                )
                return
            known = {path.rpartition("/")[2] for path in table.file_uris()}
            files = [file for file in directory.unregistered() if file.path.rpartition("/")[2] not in known]
            if files:
                has = {field.name for field in table.schema().fields}
                lacking = [field for field in Schema.from_arrow(whole).fields if field.name not in has]
                if lacking:
                    table.alter.add_columns(lacking)
                actions = [_add_action(root, file) for file in files]
                table.create_write_transaction([*actions], "append", table.schema(), list(_DIRECTORIES))
        except Exception as error:
            raise _untaken(f"the Delta table in {root}", error) from error

    def _table(self, root: Path) -> DeltaTable | None:
        """Return the table; None if there is none."""
        from deltalake import DeltaTable

        try:
            if not DeltaTable.is_deltatable(str(root)):
                return None
            table = DeltaTable(root)
            table.file_uris()
        except Exception as error:
            raise JobError(
                f"the Delta table in {root} cannot be read ({_reason(error)}): move {root / _DELTA_LOG} away and run "
                "the export again, which makes the table again from all files that were exported"
            ) from error
        return table


def _add_action(root: Path, file: ExportedFile) -> AddAction:
    from deltalake.transaction import AddAction

    path = root / file.path
    status = path.stat()
    values = {"topic": file.topic, "date": file.day}
    stats = json.dumps({"numRecords": _records(path)})
    return AddAction(file.path, status.st_size, values, status.st_mtime_ns // 10**6, True, stats)


class _Iceberg:
    """A table for each topic, which has its name, partitioned by the days of timestamps."""

    def __init__(self, catalog: Catalog, namespace: str) -> None:
        self._catalog = catalog
        self._namespace = namespace

    def register(self, directory: ExportTarget, schema: pa.Schema) -> None:
        files = {False: directory.files(), True: directory.unregistered()}
        for topic in dict.fromkeys(file.topic for file in files[True]):
            name = f"the Iceberg table {self._namespace}.{topic}"
            try:
                self._catalog.create_namespace_if_not_exists(self._namespace)
                is_there = self._catalog.table_exists((self._namespace, topic))
                added = [file for file in files[is_there] if file.topic == topic]
                _check_times(name, directory.root, added)
                _add_files(self._table(topic, schema), directory.root, added)
            except JobError:
                raise
            except Exception as error:
                raise _untaken(name, error) from error

    def _table(self, topic: str, schema: pa.Schema) -> Table:
        """Return the table of a topic, made if it is missing, with all columns."""
        from pyiceberg.transforms import DayTransform

        identifier = (self._namespace, topic)
        if not self._catalog.table_exists(identifier):
            with self._catalog.create_table_transaction(identifier, schema) as making, making.update_spec() as spec:
                spec.add_field("timestamp", DayTransform(), "timestamp_day")
        table = self._catalog.load_table(identifier)
        if not set(schema.names) <= set(table.schema().column_names):
            with table.update_schema() as update:
                update.union_by_name(schema)
        return table


def _add_files(table: Table, root: Path, files: Sequence[ExportedFile]) -> None:
    known = set(table.inspect.files().column("file_path").to_pylist())
    uris = [f"file://{root / file.path}" for file in files]
    if new := [uri for uri in uris if uri not in known]:
        table.add_files(new)


def _check_times(name: str, root: Path, files: Sequence[ExportedFile]) -> None:
    """Raise `JobError` for a file that an earlier version wrote with timestamps that no Iceberg table takes."""
    for file in files:
        if file.day is None and file.date != NO_DATE:
            raise JobError(
                f"{name} cannot hold the timestamps of {root / file.path}, which an earlier version of kafkafs "
                "exported: export to another directory, with another --namespace"
            )


def _untaken(name: str, error: Exception) -> JobError:
    return JobError(
        f"{name} did not take the new files ({_reason(error)}): they are exported, and stay out of the table until an "
        "export succeeds; run it again when the reason is gone"
    )


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _records(path: Path) -> int:
    from pyarrow import parquet

    return int(parquet.read_metadata(path).num_rows)
