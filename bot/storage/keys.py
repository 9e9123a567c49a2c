"""Every Redis key, in one place. `{repo}` is a repository's id, which outlives names and owners.

| key | holds | kept |
|---|---|---|
| `delivery:{guid}` | the id of the run that this webhook asked for | 3 days |
| `body:{sha256}` | the id under which a webhook of these bytes came first | 3 days |
| `issue:{repo}#{n}` | the id of the issue's one active run | as long as it is active |
| `issue:{repo}#{n}:latest-run` | the id of its latest run | 30 days |
| `issue:{repo}#{n}:runs` | list of the ids of its last 50 runs, latest first | 30 days |
| `runs:active` | set of the ids of runs that are not finished | |
| `runs:stopping` | set of the ids of active runs that are to stop | |
| `workers` | sorted set of the workers' names; score: when each was last heard | |
| `worker:{name}` | its slots and what it works on, JSON | 60 seconds |
| `issue:{repo}#{n}:stop-time` | when people last wanted it stopped, in seconds | 1 day |
| `issue:{repo}#{n}:latest-join` | when the latest label was put on that joined its run | 30 days |
| `issue:{repo}#{n}:label-events` | up to which second each label is dealt with | 30 days |
| `run:{id}` | the record, JSON | 30 days |
| `run:{id}:stop` | who wants it to stop and why, JSON | 30 days |
| `run:{id}:lease` | `worker#fence` of who works on it now | the lease |
| `run:{id}:fence` | how often the lease was taken | 30 days |
| `run:{id}:progress` | the latest progress report, JSON | 30 days |
| `run:{id}:edit-turn` | its status comment has just been edited | 20 seconds |
| `run:{id}:checkpoints` | how many checkpoints were written | 30 days |
| `run:{id}:documents` | set of the names of its checkpoints | 30 days |
| `run:{id}:checkpoint:{key}` | one checkpoint, zlib of JSON | 7 days; its answer 30 |
| `run:{id}:archived` | 1: its bundle is in the archive; 0: it has none | 30 days |
| `archive:cursor` | when the last run ended that is dealt with for the archive | 30 days |
| `turn:archive` | the turn of one worker to archive ended runs | the interval |
| `runs:ended` | sorted set of the ids of finished runs, by when they ended | 30 days |
| `runs:durations` | how long the last of them took, the latest first | |
| `runs:totals` | how many ended in which way, and what they spent | |
| `repositories` | hash of ids: names and installation of a repository as last heard, JSON | |
| `history:{repo}` | sorted set of its runs' ends, JSON; score: when | 365 days |
| `outcomes:{repo}` | our confidence in its decided edits and their outcomes, JSON | 1 day |
| `owners:served` | sorted set of owners; score: when a run of each last began | 1 day |
| `turn:queue-positions` | the turn of one worker to announce queue positions | the interval |
| `turn:queue-arrivals` | the same for runs that have just begun to wait | 1 second |
| `turn:queue-arrival:{run}` | one of them was announced, or could not be | 30 seconds |
| `app:slug` | what GitHub calls the App, as a worker has learnt | |
| `requests:commands:{repo}`, `requests:events:{repo}` | until when they are spaced | as long |
| `requests:set-ups:{installation}` | until when its set-ups are spaced | as long |
| `request:{id}:waiting` | it waits for a run, and its author has read that | 3 days |
| `quota:{of}:{day}` | set of the ids of the runs that count against it | 2 days |
| `pulls:{repo}` | hash of our open pull requests: number to record, JSON | |
| `pulls:due` | sorted set of them; score: when to look after each at the latest | |
| `writes:{installation}` | its writes in this hour; `:notice`: it was said | 1 hour |
| `writes:{installation}:minute` | what it has created in this minute | 1 minute |
| `writes:{installation}:blocked` | until when GitHub limits it | as long as it does |
| `cursor:{repo}` | since when its issues were looked at, and an ETag | 30 days |
| `turn:permissions:{installation}` | what it has accepted was looked at | 1 minute |
| `turn:missed-webhooks` | the turn of one worker to look for missed webhooks | the interval |
| `turn:missed-webhooks:holder` | who takes that turn while it lives | 30 seconds |
| `last-refusal:{repo}:{login}` | the request of a person that was last refused | 1 day |
| `budget:{YYYY-MM-DD}:{repo}` | spent and set aside by a repository | 3 days |
| `budget:{YYYY-MM-DD}` | the same for all repositories together | 3 days |
| `environment:{image}:{key}` | what runs with one environment image share, zlib of JSON | 7 days |
| `repository:{repo}:{key}` | what a repository's runs share, zlib of JSON | 30 days |
| `queue` | arq's queue: sorted set of jobs; score: when to try next | |

arq adds `arq:job:`, `arq:in-progress:`, `arq:retry:` and `arq:result:` before the ids of jobs; ours
are `{run}#{starts}` and `request:{id}` behind the prefix.
"""

from typing import Final, Literal

from bot.data.run import Login, RepoRef, RunId

DAY: Final = 86_400
DELIVERY_SECONDS: Final = 3 * DAY  # GitHub offers redelivery of a webhook for three days
BUDGET_SECONDS: Final = 3 * DAY
RECORD_SECONDS: Final = 30 * DAY
CHECKPOINT_SECONDS: Final = 7 * DAY  # paid for once; longer than any outage that a run outlives

IssuePart = Literal["", "latest-run", "latest-join", "runs", "stop-time", "label-events"]
RunPart = Literal[
    "", "stop", "lease", "fence", "checkpoints", "documents", "archived", "progress", "edit-turn"
]
ISSUE_KEY: Final = "issue"
"""The checkpoint that holds the issue as the run's first worker read it."""
BRANCH_HISTORY_KEY: Final = "contents"
"""The checkpoint of what the run's pull request has held."""


class Keys:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.active = f"{prefix}runs:active"
        self.stopping = f"{prefix}runs:stopping"
        self.workers = f"{prefix}workers"
        self.ended = f"{prefix}runs:ended"
        self.durations = f"{prefix}runs:durations"
        self.totals = f"{prefix}runs:totals"
        self.owners_served = f"{prefix}owners:served"
        self.archive_cursor = f"{prefix}archive:cursor"
        self.queue = f"{prefix}queue"
        self.app_slug = f"{prefix}app:slug"
        self.repositories = f"{prefix}repositories"
        self.pulls_due = f"{prefix}pulls:due"

    def worker(self, name: str) -> str:
        return f"{self.prefix}worker:{name}"

    def turn(self, name: str) -> str:
        """The turn to do what one worker does for all."""
        return f"{self.prefix}turn:{name}"

    def delivery(self, guid: str) -> str:
        return f"{self.prefix}delivery:{guid}"

    def body(self, digest: str) -> str:
        return f"{self.prefix}body:{digest}"

    def issue(self, repo: RepoRef, number: int, part: IssuePart = "") -> str:
        return f"{self.prefix}issue:{repo.id}#{number}{part and ':'}{part}"

    def request(self, request_id: str) -> str:
        """The id of its job."""
        return f"{self.prefix}request:{request_id}"

    def waiting(self, request_id: str) -> str:
        return f"{self.request(request_id)}:waiting"

    def pace(self, repo: RepoRef, by_people: bool) -> str:
        return f"{self.prefix}requests:{'commands' if by_people else 'events'}:{repo.id}"

    def set_ups(self, installation: int) -> str:
        return f"{self.prefix}requests:set-ups:{installation}"

    def pulls(self, repo: int) -> str:
        return f"{self.prefix}pulls:{repo}"

    def quota(self, counted_by: str, day: str) -> str:
        return f"{self.prefix}quota:{counted_by.lower()}:{day}"

    def last_refusal(self, repo: RepoRef, login: Login) -> str:
        return f"{self.prefix}last-refusal:{repo.id}:{login.lower()}"

    def writes(self, installation: int) -> str:
        return f"{self.prefix}writes:{installation}"

    def budget(self, day: str, repo: RepoRef | None = None) -> str:
        """None: of all repositories together."""
        whole = f"{self.prefix}budget:{day}"
        return f"{whole}:{repo.id}" if repo else whole

    def run(self, run_id: RunId, part: RunPart = "") -> str:
        return f"{self.prefix}run:{run_id}{part and ':'}{part}"

    def of_repository(self, what: Literal["history", "outcomes", "cursor"], repo: RepoRef) -> str:
        return f"{self.prefix}{what}:{repo.id}"

    def environment(self, image: str, key: str) -> str:
        """What runs with the same environment image share; the image's name identifies its code."""
        return f"{self.prefix}environment:{image}:{key}"

    def repository(self, repo: RepoRef, key: str) -> str:
        return f"{self.prefix}repository:{repo.id}:{key}"

    def checkpoint(self, run_id: RunId, key: str) -> str:
        return f"{self.run(run_id)}:checkpoint:{key}"
