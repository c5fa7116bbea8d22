# SPDX-License-Identifier: Apache-2.0
"""FLARE for notebooks: what is wrong with a training job, from the files that it left.

    import flare
    diagnosis = flare.diagnose("traces/")
    diagnosis.findings                  # [Finding(open fail_slow/..., ranks [3], ...)]
    diagnosis.steps().to_pandas()       # one row per rank and step
    diagnosis.plot("step_time")

Kinds of files, detectors and report are those of the `flare` command.
"""
from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _flare
from .table import Table

__all__ = ["Diagnosis", "Evidence", "Finding", "Table", "diagnose", "read"]
__version__ = _flare.version


@dataclass(frozen=True)
class Evidence:
    """One number or fact behind a finding."""

    text: str
    metric: str | None = None
    value: float | None = None
    unit: str | None = None
    expected: float | None = None


@dataclass(frozen=True)
class Finding:
    """What is wrong: docs/findings.md explains classes, causes, teams and states."""

    id: str
    finding_class: str
    cause: str
    team: str
    ranks: list[int]
    state: str
    severity: str
    confidence: float
    summary: str
    action: str
    victims: list[int] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Finding:
        return cls(
            id=found["id"], finding_class=found["class"], cause=found["cause"],
            team=found["team"], ranks=found["ranks"], state=found["state"],
            severity=found["severity"], confidence=found["confidence"],
            summary=found["summary"], action=found["action"], victims=found["victims"],
            nodes=found["nodes"], links=found["links"],
            evidence=[Evidence(e["text"], e.get("metric"), e.get("value"), e.get("unit"),
                               e.get("expected")) for e in found["evidence"]])

    def __repr__(self) -> str:
        return (f"Finding({self.state} {self.finding_class}/{self.cause}, ranks {self.ranks}: "
                f"{self.summary})")


class Diagnosis:
    """One job as its files show it. Tables are made anew at each call."""

    def __init__(self, job: _flare.Job):
        self._job = job
        #: The report, as `flare diagnose --json` prints it (docs/report.schema.json).
        self.report: dict[str, Any] = json.loads(job.report_json())
        #: What is wrong; empty when nothing was found.
        self.findings: list[Finding] = [Finding.from_json(f) for f in self.report["findings"]]
        #: What was left out or guessed, as sentences.
        self.notes: list[str] = self.report.get("notes", [])

    def steps(self) -> Table:
        """One row per rank and step: times and what the device did, in nanoseconds."""
        return Table(self._job.steps())

    def kernels(self) -> Table:
        """Device kernels of each rank and step, by class: count, total and quantiles."""
        return Table(self._job.kernels())

    def gemms(self) -> Table:
        """Matrix products of each rank and step, by shape, with the TFLOP/s reached."""
        return Table(self._job.gemms())

    def collectives(self) -> Table:
        """Each collective whose duration was observed, on each rank."""
        return Table(self._job.collectives())

    def waits(self) -> Table:
        """How long the other ranks waited for each rank, by step, in nanoseconds."""
        return Table(self._job.waits())

    def plot(self, metric: str = "step_time", ax=None):
        """Draws a metric with matplotlib and returns the axes; flare.plots.METRICS lists them."""
        from . import plots
        return plots.plot(self, metric, ax)

    def __repr__(self) -> str:
        job = self.report["job"]
        return f"Diagnosis({job['name']!r}, {job['world_size']} ranks, {self.findings})"


def read(*paths: str | os.PathLike, kind: str = "", name: str = "") -> list[Diagnosis]:
    """Reads files and folders; one Diagnosis for each job in them.

    `kind` names the format of all files instead of telling it by content. Raises ValueError when a
    named file cannot be used.
    """
    if not paths:
        raise ValueError("name at least one file or folder")
    files = [os.fspath(path) for path in paths]
    name = name or Path(files[0]).name.split(".")[0] or "job"
    return [Diagnosis(job) for job in _flare.read_jobs(files, kind, name)]


def diagnose(*paths: str | os.PathLike, kind: str = "", name: str = "") -> Diagnosis:
    """As read(), for the files of one job."""
    jobs = read(*paths, kind=kind, name=name)
    if len(jobs) > 1:
        raise ValueError(f"these are the files of {len(jobs)} jobs; use flare.read(), or name the "
                         "files of one")
    return jobs[0]
