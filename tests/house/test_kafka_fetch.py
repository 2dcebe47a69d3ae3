"""scripts/kafka finds the newest whole release, survives interruption, and says in a sentence what is missing.

Maven and Java are played by scripts here, so that the repository can be as awkward as a test wants it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"

MVN = """\
import os, pathlib, re, sys

LISTED = {
    "kafka_2.13": ["3.9.1", "3.9.2", "3.9.3", "3.10.0", "4.3.1", "4.4.0-rc1", "4.4.0", "5.0.0-rc1"],
    "spark-sql-kafka-0-10_2.13": ["3.5.9", "4.2.0", "4.2.0-preview5", "4.3.0", "4.10.0"],
    "spark-token-provider-kafka-0-10_2.13": ["3.5.9", "4.0.0", "4.1.0", "4.2.0", "4.3.0"],
}
INCOMPLETE = {
    "kafka_2.13": ["3.9.3"],
    "spark-sql-kafka-0-10_2.13": ["4.3.0"],
    "spark-token-provider-kafka-0-10_2.13": ["4.2.0", "4.1.0"],
}
NEEDED = {
    "kafka_2.13": {"slf4j-api": ("org.slf4j", "1.7.36")},
    "spark-sql-kafka-0-10_2.13": {
        "kafka-clients": ("org.apache.kafka", "3.9.2"),
        "scala-library": ("org.scala-lang", "2.13.17"),
    },
}

def option(name):
    return next((each.partition("=")[2] for each in sys.argv if each.startswith("-D%s=" % name)), "")

def fail(reason):
    print("[ERROR] %s -> [Help 1]" % reason)
    sys.exit(1)

with open(os.environ["MAVEN_CALLS"], "a") as calls:
    calls.write("called\\n")
if "MAVEN_WAITS_FOR" in os.environ:
    open(os.environ["MAVEN_WAITS_FOR"]).read()
if "MAVEN_FAILS" in os.environ:
    fail(os.environ["MAVEN_FAILS"])
pom = pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).read_text().partition("<dependencies>")[2]
pattern = "<groupId>(.*?)</groupId>\\s*<artifactId>(.*?)</artifactId>\\s*<version>(.*?)</version>"
wanted = {artifact: (group, version) for group, artifact, version in re.findall(pattern, pom)}
repository = pathlib.Path(__file__).parent / "repository"
for artifact, (group, version) in wanted.items():
    folder = repository.joinpath(*group.split("."), artifact)
    if version == "RELEASE":
        folder.mkdir(parents=True, exist_ok=True)
        listed = "".join("<version>%s</version>" % each for each in LISTED[artifact])
        (folder / "maven-metadata-central.xml").write_text(listed)
        version = max(LISTED[artifact])
    if version in INCOMPLETE.get(artifact, []):
        fail("Could not find artifact %s:%s:jar:%s in central" % (group, artifact, version))
    if option("outputFile"):
        pom = folder / version / ("%s-%s.pom" % (artifact, version))
        pathlib.Path(option("outputFile")).write_text("   %s:%s:pom:%s:compile:%s" % (group, artifact, version, pom))
if option("outputDirectory"):
    jars = pathlib.Path(option("outputDirectory"))
    jars.mkdir(parents=True, exist_ok=True)
    for artifact in list(wanted):
        wanted |= NEEDED.get(artifact, {})
    if "kafka_2.13" in wanted:
        logging = ("slf4j-reload4j", "1.7.36") if wanted["kafka_2.13"][1].startswith("3") else ("log4j-core", "2.25.4")
        wanted[logging[0]] = ("org.logging", logging[1])
    groups = option("includeGroupIds").split(",")
    for artifact, (group, version) in wanted.items():
        if groups == [""] or group in groups:
            (jars / ("%s-%s.jar" % (artifact, version))).touch()
"""
SHELL_MVN = """\
#!/bin/sh
exec "{python}" "$0.py" "$@"
"""
JAVA = """\
#!/bin/sh
echo "openjdk version \\"${JAVA_VERSION:-17.0.1}\\" 2021-10-19" >&2
"""


class Checkout:
    """A checkout of nothing but scripts/kafka, beside the only programs that it finds."""

    def __init__(self, folder: Path) -> None:
        self.scripts, self.cache = folder / "scripts", folder / ".cache" / "kafka"
        shutil.copytree(SCRIPTS / "real_kafka", self.scripts / "real_kafka")
        shutil.copytree(SCRIPTS / "kafka-judge", self.scripts / "kafka-judge")
        shutil.copy(SCRIPTS / "kafka", self.scripts)
        self.programs, self.calls = folder / "programs", folder / "calls"
        self.programs.mkdir()
        shell_mvn = SHELL_MVN.format(python=sys.executable)
        for name, text in {"mvn": shell_mvn, "mvn.py": MVN, "java": JAVA, "javac": JAVA}.items():
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)

    def fetch(self, **environment: str) -> subprocess.Popen[str]:
        return self.run("fetch", **environment)

    def run(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        known = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
        return subprocess.Popen(
            [sys.executable, self.scripts / "kafka", *arguments],
            env={**known, "PATH": str(self.programs), "MAVEN_CALLS": str(self.calls), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def jars(self, version: str) -> set[str]:
        return {jar.name for jar in (self.cache / version / "jars").iterdir()}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_newest_whole_release_of_each_series_is_fetched_once(checkout):
    output, said = checkout.fetch().communicate()
    assert output == "3.9=3.9.2\n4=4.4.0\n"
    assert said.count("passing over kafka_2.13 3.9.3:") == 1
    assert checkout.jars("3.9.2") == {
        "kafka_2.13-3.9.2.jar",
        "kafka-tools-3.9.2.jar",
        "slf4j-api-1.7.36.jar",
        "slf4j-reload4j-1.7.36.jar",
    }
    assert checkout.jars("4.4.0") == {
        "kafka_2.13-4.4.0.jar",
        "kafka-tools-4.4.0.jar",
        "slf4j-api-1.7.36.jar",
        "log4j-core-2.25.4.jar",
        "log4j-slf4j-impl-2.25.4.jar",
    }
    assert {entry.name for entry in checkout.cache.iterdir()} == {"lock", "3.9.2", "4.4.0"}

    checkout.calls.unlink()
    assert checkout.fetch().communicate() == (output, "")
    assert not checkout.calls.exists()


def test_the_newest_whole_connector_that_spark_can_use_is_fetched_once(checkout):
    output, said = checkout.run("connector", "4.3.1").communicate()
    jars = [
        "kafka-clients-3.9.2.jar",
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ]
    folder = checkout.cache / "connector-4.3.1"
    assert output == f"jars={','.join(str(folder / jar) for jar in jars)}\n"
    assert sorted(jar.name for jar in folder.iterdir()) == jars
    passed_over = [line.split()[3:5] for line in said.splitlines() if "passing over" in line]
    assert passed_over == [
        ["spark-sql-kafka-0-10_2.13", "4.3.0:"],
        ["spark-token-provider-kafka-0-10_2.13", "4.2.0:"],
        ["spark-token-provider-kafka-0-10_2.13", "4.1.0:"],
    ]
    assert {entry.name for entry in checkout.cache.iterdir()} == {"lock", "connector-4.3.1"}

    checkout.calls.unlink()
    assert checkout.run("connector", "4.3.1").communicate() == (output, "")
    assert not checkout.calls.exists()


def test_a_spark_that_no_connector_is_for_is_said_so(checkout):
    process = checkout.run("connector", "5.0.0")
    output, said = process.communicate()
    assert (process.returncode, output) == (3, "")
    sentence = "scripts/kafka: Maven gives no whole version of spark-sql-kafka-0-10_2.13 that is wanted"
    assert said.splitlines()[-1] == sentence
    assert {entry.name for entry in checkout.cache.iterdir()} == {"lock"}


def test_a_fetch_waits_for_another_and_takes_over_when_that_one_is_killed(checkout, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    first = checkout.fetch(MAVEN_WAITS_FOR=str(pipe))
    with pipe.open("w"):  # opened as soon as the first one's Maven runs
        second = checkout.fetch()
        assert "waiting for it" in second.stderr.readline()
        first.kill()
        output, _ = second.communicate()
    assert output == "3.9=3.9.2\n4=4.4.0\n"
    assert {entry.name for entry in checkout.cache.iterdir()} == {"lock", "3.9.2", "4.4.0"}
    first.communicate()


@pytest.mark.parametrize(
    ("removed", "environment", "sentence"),
    [
        ("java", {}, "Java is missing: no java on PATH; a JDK, 17 or newer, is needed"),
        ("javac", {}, "Java is missing: no javac on PATH; a JDK, 17 or newer, is needed"),
        ("", {"JAVA_VERSION": "11.0.2"}, "Java 11.0.2 is too old: 17 or newer is needed"),
        ("mvn", {}, "Maven is missing: no mvn on PATH"),
        ("", {"MAVEN_FAILS": "no route to host"}, "Maven does not answer: no route to host"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(checkout, removed, environment, sentence):
    if removed:
        (checkout.programs / removed).unlink()
    process = checkout.fetch(**environment)
    output, said = process.communicate()
    assert (process.returncode, output) == (3, "")
    assert said.splitlines()[-1] == f"scripts/kafka: {sentence}"
    assert not list(checkout.cache.glob("[0-9]*"))
