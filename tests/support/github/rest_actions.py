"""Jobs of GitHub Actions: their logs, and running failed ones again."""

from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import CheckRun
from tests.support.github.hub_state import hub_of

APP = "github-actions"


async def redirect_to_log(call: RestCall) -> RestResponse:
    """The log's address in a storage that takes no credential."""
    hub = hub_of(call)
    job = next((run for run in _jobs(call) if run.id == call.number("job")), None)
    if job is None or not job.log:
        raise not_found()
    place = f"/user-attachments/logs/{job.id}"
    hub.attachments[place] = job.log.encode()
    return RestResponse(302, headers={"location": f"{hub.url}{place}"})


async def rerun_failed(call: RestCall) -> RestResponse:
    """The failed jobs of a workflow run begin again; its number is the suite's, here."""
    jobs = [run for run in _jobs(call) if run.suite.id == call.number("run")]
    if not jobs:
        raise not_found()
    if any(job.status != "completed" for job in jobs):
        raise Refusal(403, "This workflow is already running")
    for job in jobs:
        if job.conclusion == "failure":
            job.status, job.conclusion, job.completed_at = "queued", None, None
    return RestResponse(201, {})


def _jobs(call: RestCall) -> list[CheckRun]:
    return [run for run in call.repo.check_runs if run.suite.app == APP]


OPERATIONS = (
    operation("GET", REPO + "/actions/jobs/{job}/logs", redirect_to_log, "actions:read"),
    operation(
        "POST", REPO + "/actions/runs/{run}/rerun-failed-jobs", rerun_failed, "actions:write"
    ),
)
