"""Every Redis key, in one place.

| key | holds | kept |
|---|---|---|
| `delivery:{guid}` | the id of the run that this webhook asked for | 3 days |
| `issue:{owner}/{repo}#{n}` | the id of the issue's one active run | as long as it is active |
| `issue:{owner}/{repo}#{n}:last` | the id of its latest run | 30 days |
| `runs:active` | set of the ids of runs that are not finished | |
| `issue:{owner}/{repo}#{n}:stopped` | when people last wanted it stopped, in seconds | 1 day |
| `issue:{owner}/{repo}#{n}:answered` | up to which second each label is dealt with | 30 days |
| `run:{id}` | the record, JSON | 30 days |
| `run:{id}:stop` | who wants it to stop and why, JSON | 30 days |
| `run:{id}:lease` | `worker#fence` of who works on it now | the lease |
| `run:{id}:fence` | how often the lease was taken | 30 days |
| `run:{id}:told` | the latest progress report, JSON | 30 days |
| `run:{id}:edited` | its status comment has just been edited | 5 seconds |
| `run:{id}:progress` | how many checkpoints were written | 30 days |
| `run:{id}:ck:{key}` | one checkpoint, zlib of JSON | 7 days; its answer 30 |
| `runs:ended` | sorted set of the ids of finished runs, by when they ended | 30 days |
| `runs:seconds` | how long the last of them took, the latest first | |
| `runs:totals` | how many ended in which way, and what they spent | |
| `runs:of:{owner}/{repo}` | sorted set of its runs' ends, JSON; score: when | 365 days |
| `sweep:queue` | the turn of one worker to announce queue positions | the interval |
| `requests` | sorted set of the ids of open requests; score: when to try next | |
| `order:{id}` | a queued request with its tries, JSON | 3 days |
| `quota:{of}:{day}` | set of the ids of the runs that count against it | 2 days |
| `pulls:{owner}/{repo}` | hash of our open pull requests: number to record, JSON | |
| `pulls:due` | sorted set of them; score: when to look after each at the latest | |
| `sweep:cursor:{owner}/{repo}` | since when its issues were looked at, and an ETag | 30 days |
| `sweep:labelled` | the turn of one worker to look for missed webhooks | the interval |
| `refused:{owner}/{repo}:{login}` | the request of a person that was last refused | 1 day |
| `budget:{YYYY-MM-DD}:{owner}/{repo}` | spent and set aside by a repository | 3 days |
| `budget:{YYYY-MM-DD}` | the same for all repositories together | 3 days |
| `queue` | arq's queue of nudges | |

arq adds `arq:job:`, `arq:in-progress:` and `arq:retry:` before job ids; ours begin with the prefix.
"""

from __future__ import annotations

from typing import Final

from bot.types import RepoRef

DAY: Final = 86_400
DELIVERY_SECONDS: Final = 3 * DAY  # GitHub offers redelivery of a webhook for three days
BUDGET_SECONDS: Final = 3 * DAY  # a call in a batch may end a day after it began
RECORD_SECONDS: Final = 30 * DAY
CHECKPOINT_SECONDS: Final = 7 * DAY  # paid for once; longer than any outage that a run outlives


ISSUE_KEY: Final = "issue"
"""The checkpoint that holds the issue as the run's first worker read it."""
BRANCH_HISTORY_KEY: Final = "contents"
"""The checkpoint of what the run's pull request has held."""


class Keys:
    """The names of all keys under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.active = f"{prefix}runs:active"
        self.queue = f"{prefix}queue"
        self.ended = f"{prefix}runs:ended"
        self.durations = f"{prefix}runs:seconds"
        self.totals = f"{prefix}runs:totals"
        self.queue_turn = f"{prefix}sweep:queue"
        self.requests = f"{prefix}orders"
        self.pulls_due = f"{prefix}pulls:due"
        self.missed_webhooks_turn = f"{prefix}sweep:labelled"

    def delivery(self, guid: str) -> str:
        return f"{self.prefix}delivery:{guid}"

    def issue(self, repo: RepoRef, number: int) -> str:
        """The same for every spelling of a repository: GitHub ignores case in names."""
        return f"{self.prefix}issue:{repo.full_name.lower()}#{number}"

    def latest_run(self, repo: RepoRef, number: int) -> str:
        return f"{self.issue(repo, number)}:last"

    def stop_time(self, repo: RepoRef, number: int) -> str:
        return f"{self.issue(repo, number)}:stopped"

    def label_events(self, repo: RepoRef, number: int) -> str:
        return f"{self.issue(repo, number)}:answered"

    def request(self, request_id: str) -> str:
        return f"{self.prefix}order:{request_id}"

    def pulls(self, repo: RepoRef) -> str:
        return f"{self.prefix}pulls:{repo.full_name.lower()}"

    def history(self, repo: RepoRef) -> str:
        return f"{self.prefix}runs:of:{repo.full_name.lower()}"

    def quota(self, counted_by: str, day: str) -> str:
        return f"{self.prefix}quota:{counted_by.lower()}:{day}"

    def last_refusal(self, repo: RepoRef, login: str) -> str:
        return f"{self.prefix}refused:{repo.full_name.lower()}:{login.lower()}"

    def cursor(self, repo: RepoRef) -> str:
        return f"{self.prefix}sweep:cursor:{repo.full_name.lower()}"

    def stop(self, run_id: str) -> str:
        return f"{self.run(run_id)}:stop"

    def budget(self, day: str, repo: RepoRef | None = None) -> str:
        """None: of all repositories together."""
        whole = f"{self.prefix}budget:{day}"
        return f"{whole}:{repo.full_name.lower()}" if repo else whole

    def run(self, run_id: str) -> str:
        return f"{self.prefix}run:{run_id}"

    def latest_join(self, run_id: str) -> str:
        """When the latest label was put on that the run answers beside its own."""
        return f"{self.run(run_id)}:joined"

    def lease(self, run_id: str) -> str:
        return f"{self.run(run_id)}:lease"

    def fence(self, run_id: str) -> str:
        return f"{self.run(run_id)}:fence"

    def checkpoint_count(self, run_id: str) -> str:
        return f"{self.run(run_id)}:progress"

    def progress_report(self, run_id: str) -> str:
        return f"{self.run(run_id)}:told"

    def edit_turn(self, run_id: str) -> str:
        return f"{self.run(run_id)}:edited"

    def environment(self, image: str, key: str) -> str:
        """What runs with the same environment image share; the image's name identifies its code."""
        return f"{self.prefix}environment:{image}:{key}"

    def checkpoint(self, run_id: str, key: str) -> str:
        return f"{self.run(run_id)}:ck:{key}"
