"""The files that a finished run of the whole pipeline leaves in its `--out`."""

from __future__ import annotations

from bot.cli.local_run import health_file
from bot.cli.report_files.candidates import candidate_files
from bot.cli.report_files.document import Report, build_report, render_report
from bot.runner.types import SolveOutcome
from bot.types import CommitSha
from pipeline.types import Selection


def build_run_files(
    outcome: SolveOutcome, base_commit: CommitSha, hosts: tuple[str, ...] | None
) -> tuple[Report, dict[str, bytes]]:
    """The report, and all files by their names; `hosts` are those that received code."""
    report = build_report(outcome, base_commit, hosts)
    result = outcome.result
    files = {
        "report.json": report.model_dump_json(indent=1).encode() + b"\n",
        "report.md": render_report(outcome, hosts).encode(),
        **health_file(outcome.environment),
        **candidate_files(result),
    }
    if isinstance(result, Selection) and result.is_proven:
        files["patch.diff"] = result.candidate.patch.diff.encode()
        if result.evidence.reproduction.rung != "the edit's own tests":
            files["reproduction_test.py"] = result.evidence.reproduction.text.encode()
            files["test.diff"] = result.evidence.reproduction.diff.encode()
    return report, files
