"""Every Redis key, in one place.

| key | holds | kept |
|---|---|---|
| `delivery:{guid}` | the id of the run that this webhook asked for | 3 days |
| `issue:{owner}/{repo}#{n}` | the id of the issue's one active run | as long as it is active |
| `issue:{owner}/{repo}#{n}:last` | the id of its latest run | 30 days |
| `runs:active` | set of the ids of runs that are not finished | |
| `run:{id}` | the record, JSON | 30 days |
| `run:{id}:lease` | `worker#fence` of who works on it now | the lease |
| `run:{id}:fence` | how often the lease was taken | 30 days |
| `run:{id}:progress` | how many checkpoints were written | 30 days |
| `run:{id}:ck:{key}` | one checkpoint, zlib of JSON | 7 days |
| `sweep:labelled` | the turn of one worker to look for missed webhooks | the interval |
| `queue` | arq's queue of nudges | |

arq adds `arq:job:`, `arq:in-progress:` and `arq:retry:` before job ids; ours begin with the prefix.
"""

from __future__ import annotations

from typing import Final

from bot.types import RepoRef

DAY: Final = 86_400
DELIVERY_SECONDS: Final = 3 * DAY  # GitHub offers redelivery of a webhook for three days
RECORD_SECONDS: Final = 30 * DAY
CHECKPOINT_SECONDS: Final = 7 * DAY  # paid for once; longer than any outage that a run outlives


class Keys:
    """The names of all keys under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.active = f"{prefix}runs:active"
        self.queue = f"{prefix}queue"
        self.labelled_turn = f"{prefix}sweep:labelled"

    def delivery(self, guid: str) -> str:
        return f"{self.prefix}delivery:{guid}"

    def issue(self, repo: RepoRef, number: int) -> str:
        """The same for every spelling of a repository: GitHub ignores case in names."""
        return f"{self.prefix}issue:{repo.full_name.lower()}#{number}"

    def last(self, repo: RepoRef, number: int) -> str:
        return f"{self.issue(repo, number)}:last"

    def run(self, run_id: str) -> str:
        return f"{self.prefix}run:{run_id}"

    def lease(self, run_id: str) -> str:
        return f"{self.run(run_id)}:lease"

    def fence(self, run_id: str) -> str:
        return f"{self.run(run_id)}:fence"

    def progress(self, run_id: str) -> str:
        return f"{self.run(run_id)}:progress"

    def checkpoint(self, run_id: str, key: str) -> str:
        return f"{self.run(run_id)}:ck:{key}"
