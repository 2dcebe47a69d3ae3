"""Maven: the versions of an artifact that its repositories list, and the newest of them that has all of its files.

Which repositories those are, and where Maven keeps what it has fetched, its own settings say. A repository may list
versions that it cannot give: those are passed over.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from real_kafka import UnavailableError, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PLUGIN_GROUP, PLUGIN_NAME, PLUGIN_VERSION = "org.apache.maven.plugins", "maven-dependency-plugin", "3.8.1"
PLUGIN = f"{PLUGIN_GROUP}:{PLUGIN_NAME}:{PLUGIN_VERSION}"
TIME_S_MAX = 300
INCOMPLETE_VERSIONS_MAX = 10
"""How many of the newest versions may be listed and yet lack files."""

POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafkafs</groupId>
  <artifactId>real-kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{name}</artifactId>
      <version>{version}</version>
      <type>{type}</type>
      <exclusions>{exclusions}</exclusions>
    </dependency>"""
EXCLUSION = "<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>"
EVERY_GROUP = "*"


class MissingFileError(Exception):
    """The repository has not all files of a version."""


@dataclass(frozen=True)
class Artifact:
    """Something that Maven has by a group and a name, in several versions."""

    group: str
    name: str

    def dependency(self, version: str, *, without: str | None = None, only_its_pom: bool = False) -> str:
        """Say in a project that a version is needed, and what it needs itself but for what is of one group."""
        return DEPENDENCY.format(
            group=self.group,
            name=self.name,
            version=version,
            type="pom" if only_its_pom else "jar",
            exclusions="" if without is None else EXCLUSION.format(group=without),
        )


class Maven:
    """Maven, with a folder for the projects that it is run on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def newest_whole(self, artifact: Artifact, wanted: Callable[[str], bool], take: Callable[[str], None]) -> str:
        """The newest version that is wanted and that can be taken, which raises `MissingFileError` if it is not whole.

        Only releases come into question, whose versions are numbers with dots.
        """
        versions = [version for version in self._versions(artifact) if wanted(version)]
        for version in versions[:INCOMPLETE_VERSIONS_MAX]:
            try:
                take(version)
            except MissingFileError:
                say(f"passing over {artifact.name} {version}: Maven does not find all of its files")
            else:
                return version
        raise UnavailableError(f"Maven gives no whole version of {artifact.name} that is wanted")

    def copy(self, dependencies: Sequence[str], jars: Path, *, groups: str = "") -> None:
        """Put the jars of dependencies, and of all that these need, into a folder; if it is said, only some groups'."""
        self._run(
            "copying", dependencies, "copy-dependencies", f"-DoutputDirectory={jars}", f"-DincludeGroupIds={groups}"
        )

    def _versions(self, artifact: Artifact) -> list[str]:
        """The releases that are listed, the newest first."""
        # Maven fetches the list for this, even if it fails then. For a range it would read the pom of every version in
        # it, and end at the first that it cannot have.
        with suppress(MissingFileError):
            anyone = artifact.dependency("RELEASE", without=EVERY_GROUP, only_its_pom=True)
            self._run("listing", [anyone], "list")
        lists = self._repository.joinpath(*artifact.group.split("."), artifact.name).glob("maven-metadata*.xml")
        listed = {version for path in lists for version in re.findall(r"<version>([\d.]+)</version>", path.read_text())}
        if not listed:
            raise UnavailableError(f"Maven names no version of {artifact.name}")
        return sorted(listed, key=numbers, reverse=True)

    @cached_property
    def _repository(self) -> Path:
        """Where Maven keeps what it has fetched, told by the place of a file that is always there: its plugin's."""
        plugin = Artifact(PLUGIN_GROUP, PLUGIN_NAME)
        itself = plugin.dependency(PLUGIN_VERSION, without=EVERY_GROUP, only_its_pom=True)
        found = self._folder / "found"
        try:
            self._run("looking", [itself], "list", f"-DoutputFile={found}", "-DoutputAbsoluteArtifactFilename=true")
        except MissingFileError as missing:
            raise UnavailableError(f"Maven does not answer: {missing}") from None
        place = Path("/", *PLUGIN_GROUP.split("."), PLUGIN_NAME, PLUGIN_VERSION, f"{PLUGIN_NAME}-{PLUGIN_VERSION}.pom")
        told = re.search(rf":(/.*){re.escape(str(place))}", found.read_text())
        if told is None:
            raise UnavailableError("Maven does not say where it keeps what it has fetched")
        return Path(told[1])

    def _run(self, doing: str, dependencies: Sequence[str], goal: str, *options: str) -> None:
        """Run a goal of the plugin on a project with dependencies."""
        maven = shutil.which("mvn")
        if maven is None:
            raise UnavailableError("Maven is missing: no mvn on PATH")
        project = self._folder / f"{doing}.xml"
        project.write_text(POM.format(dependencies="".join(dependencies)))
        # -U, or a file that was missing yesterday counts as missing today.
        command = [maven, "-B", "-U", "-ntp", "-q", "-f", str(project), f"{PLUGIN}:{goal}", *options]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_S_MAX)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"Maven does not answer within {TIME_S_MAX} s") from None
        if answer.returncode == 0:
            return
        error = re.search(r"\[ERROR\] (.*)", answer.stdout)
        reason = error[1].partition(" -> ")[0] if error else f"exit status {answer.returncode}"
        if re.search(r"Could not find artifact|was not found in|status: 4\d\d", reason):
            raise MissingFileError(reason)
        raise UnavailableError(f"Maven does not answer: {textwrap.shorten(reason, 300)}")


def numbers(version: str) -> list[int]:
    """By what versions are ordered."""
    return [int(number) for number in version.split(".")]
