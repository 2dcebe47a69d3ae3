"""Where a streaming query keeps its id, under every name that Spark takes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkafs.spark.checkpoints import local_path, query_id

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}", "FILE:{}"])
def test_a_path_and_every_uri_of_it_name_the_same_checkpoint(form: str, tmp_path: Path) -> None:
    """Spark does not unescape them."""
    checkpoint = tmp_path / "a check%20point"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"a-b-c"}')
    assert query_id(form.format(checkpoint)) == "a-b-c"


@pytest.mark.parametrize("path", ["/a/file:/b", "file:relative", "relative", "files/x"])
def test_other_paths_are_left_as_they_are(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize("uri", ["nothing://host/checkpoint", "wasb://host/checkpoint"])
def test_what_cannot_be_read_is_an_error_that_names_the_scheme(uri: str) -> None:
    with pytest.raises(ValueError, match=uri.partition(":")[0]):
        query_id(uri)


def test_a_checkpoint_in_an_object_store_goes_by_hadoops_name_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server = pytest.importorskip("moto.server", reason="not run: moto is not installed").ThreadedMotoServer(port=0)
    filesystem = pytest.importorskip("pyarrow.fs", reason="not run: pyarrow is not installed").S3FileSystem
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "REGION": "us-east-1"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        store = filesystem(endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True)
        store.create_dir("bucket")
        with store.open_output_stream("bucket/checkpoint/metadata") as file:
            file.write(b'{"id":"a-b-c"}')
        assert query_id("s3a://bucket/checkpoint") == "a-b-c"
        with pytest.raises(FileNotFoundError):
            query_id("s3a://bucket/another")
    finally:
        server.stop()
