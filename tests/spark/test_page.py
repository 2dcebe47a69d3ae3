"""The Python examples of the page on Spark give what it says."""

from __future__ import annotations

import doctest
import re
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

EXAMPLES = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACES = re.compile(r'"(store|large|checkpoint|checkpoint\.lag\.json|sorted|sorting)"')


def test_every_example_gives_what_the_page_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = files("kafkafs").joinpath("docs", "pyspark.md").read_text(encoding="utf-8")
    # A path is found from where the JVM began, and that is not the test's own directory.
    examples = PLACES.sub(rf'"{tmp_path}/\1"', "\n".join(EXAMPLES.findall(page)))
    test = doctest.DocTestParser().get_doctest(examples, {"spark": spark}, "pyspark.md", None, 0)
    assert len(test.examples) > 10
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    runner.run(test, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
