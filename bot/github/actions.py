"""GitHub Actions: the logs of jobs, and running failed ones again.

The token is one of its own, so that an installation which has not accepted this permission loses
nothing else.
"""

from typing import Final

from bot.github.repository_api import RepositoryApi

ACTIONS_APP: Final = "github-actions"
"""The slug of the App that makes the check runs of Actions; their ids are those of the jobs."""
LOG_BYTES: Final = 200_000


class Actions:
    """The jobs of a repository.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    def __init__(self, api: RepositoryApi) -> None:
        self._api = api

    async def read_job_log(self, job: int) -> str:
        """The end of a job's log. Untrusted.

        https://docs.github.com/rest/actions/workflow-jobs#download-job-logs-for-a-workflow-run
        """
        return await self._api.read_tail("actions", "jobs", job, "logs", most=LOG_BYTES)

    async def rerun_failed_jobs(self, workflow_run: int) -> None:
        """Run the failed jobs of a workflow run again.

        https://docs.github.com/rest/actions/workflow-runs#re-run-failed-jobs-from-a-workflow-run
        """
        await self._api.send("POST", "actions", "runs", workflow_run, "rerun-failed-jobs")
