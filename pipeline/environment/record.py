"""The attempts to make an environment, with their results: plain data, saved with the run."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from pydantic import Field

from pipeline.environment.health import Grade, Health, Rank
from prompts.text import agree, join_names, strip_ansi
from sandbox.environment.recipe import Installation
from sandbox.errors import EnvironmentFailed
from sandbox.frozen import Frozen, replace

MODEL_ATTEMPT: Final = "model"
"""The name of attempts whose commands a model wrote."""
REMEMBERED_ATTEMPT: Final = "remembered"
"""The name of the attempt that served an earlier run of the repository."""

NO_INDEX: Final = "The package index did not answer, or answered with an error."
_HAS_PYTHONS: Final = re.compile(r"and the sandbox has (3\.\d{1,2}(?:, 3\.\d{1,2}){0,30})\.")
_PYTHON: Final = re.compile(r"Python (3\.\d{1,2})(?: \(3\.\d{1,2} if it is not there\))?")
"""What an attempt's summary says before anybody knows which Pythons the sandbox has."""
_DAY: Final = re.compile(
    r"packages as of (\d{4}-\d\d-\d\d)(?: \(\d{1,3} days after [^()]{1,30}\))?"
)
"""What it says before anybody knows on which day the index had what is needed."""
_NO_SUCH_VERSION: Final = re.compile(r" asks for version .{1,40}, and there is ")
"""What it says where the toolchain of a language cannot be had as the files ask."""
_LINE: Final = 300
"""Characters read of a line in a log."""
_ERROR: Final = re.compile(
    r"\b(error|fatal)\b|no matching distribution|^\s{0,20}> Could not\b|^go: \S+@"
    r"|^Could not find (?:gem|compatible)| is missing from your system",
    re.IGNORECASE,
)
_TO_REPORT: Final = re.compile(
    r"/issues/new\b|\b(?:error|bug|issue) reports?\b|^\[ERROR\]\s*(?:$|\[Help \d|mvn <args>)"
    r"|re-run maven|about the errors\b|^\[ERROR\] After correcting",
    re.IGNORECASE,
)
"""Where to report an error, and what else programs advise after its cause."""
_OF_NPM: Final = re.compile(r"^npm (?:ERR!|error) (?!code |A comp)(?:\w{1,20} )?([A-Z'].*)", re.M)
"""What npm says went wrong: its last lines name a file with a log."""
_NO_INDEX: Final = re.compile(
    r"HTTP error [45]\d\d while getting|HTTP status (server error|client error \(404)"
    r"|NewConnectionError|Connection refused|Temporary failure in name resolution"
    r"|Could not connect|error sending request for url|Read timed out|ConnectTimeout"
    r"|Could not transfer artifact [^\n]{1,600}(?:(?:status|is): 5\d\d|Unknown host|timed out)"
    r"|Could not fetch URL \S{1,300} (?!404 )"
    r"|npm (?:ERR!|error) code (?:E5\d\d|ETIMEDOUT|ECONNRE\w+|ENOTFOUND|EAI_AGAIN)"
    r"|spurious network error|proxy\.golang\.org\S{0,200}: 5\d\d|dial tcp|i/o timeout"
    r"|Received status code 5\d\d|status code: 5\d\d, reason|does not indicate success: 5\d\d"
    r"|ERR_PNPM_FETCH_5\d\d"
    r"|could not be downloaded[\s:]{1,20}Failed to open stream: (?!HTTP request)"
    r"|Could not reach host|[Bb]ad response [\w ]{0,40}5\d\d|curl error \d"
    r"|Net::HTTP\w{1,40}: 5\d\d|/rubygems/search\?q=5\d\d\+"
    r"|could not be downloaded \(HTTP/[\d.]{1,3} 5\d\d|failed! HTTP/[\d.]{1,3} 5\d\d"
    r"|failed to get (?:successful HTTP|200) response from [^\n]{1,400}, got 5\d\d"
    r"|HTTP response code: 5\d\d for URL|Request failed \\?\"5\d\d"
)
"""Messages of package managers if the index is unavailable, or lacks a file that it lists."""
_OWN_SCRIPT: Final = re.compile(
    r"\bELIFECYCLE\b|npm (?:ERR!|error) command (?:failed|sh\b)|: Command failed\."
    r"|couldn't be built successfully|failed to run custom build command"
)
"""Messages of package managers if a package that they fetched failed to install itself."""


def find_cause(log: str) -> str:
    """The last line of an installation's log that names an error; empty if none does."""
    lines = (line for line in strip_ansi(log).splitlines() if not _TO_REPORT.search(line))
    told = [line.strip() for line in lines if _ERROR.search(line[:_LINE])]
    told = _OF_NPM.findall(log)[:1] or told
    return told[-1][:_LINE] if told else ""


class TriedAttempt(Frozen):
    name: str
    summary: str
    image: str = ""
    """Empty if it could not be installed."""
    health: Health | None = None
    problem: str = ""
    """Why it could not be installed, in a sentence. Untrusted, as are the next two."""
    command: str = ""
    """The step that failed."""
    log: str = ""
    setup: tuple[str, ...] = ()
    """The commands, unless a file or a rule made them."""
    python: str = ""
    """The Python that those commands want, `3.N`; empty for the default."""
    seconds: float = Field(default=0.0, ge=0)

    @property
    def rank(self) -> Rank:
        """Sort key of attempts: the greatest is the best."""
        return self.health.rank if self.health else (False, 0.0, -1, 0.0, 0)

    @property
    def grade(self) -> Grade:
        """The health's grade; BROKEN if nothing was installed."""
        return self.health.grade if self.health else Grade.BROKEN

    def line(self) -> str:
        """One line for a person. Untrusted."""
        how = f"not installed: {self._cause()}"
        if self.health:
            how = self.health.summary()
        elif self.image:
            how = "installed as in an earlier run, where it was checked"
        return " ".join(f"{self.summary.rstrip('. ')}: {how}".split())

    def _cause(self) -> str:
        """Why it could not be installed: our sentence, and the log's last error."""
        if self.met_no_index:
            return NO_INDEX  # what pip and uv conclude about a package is not true then
        return f"{self.problem} {find_cause(self.log)}".strip()

    @property
    def lacks_python(self) -> bool:
        """Whether no Python could be had that the repository accepts."""
        return not self.image and "choose_python" in self.command

    @property
    def pythons(self) -> tuple[str, ...]:
        """The Pythons that this attempt showed the sandbox to have, `3.N`."""
        if self.health and self.health.pythons:
            return self.health.pythons
        told = _HAS_PYTHONS.search(f"{self.problem} {self.log}") if self.lacks_python else None
        return tuple(told[1].split(", ")) if told else ()

    @property
    def met_no_index(self) -> bool:
        """Whether it failed because the package index did not respond.

        An interpreter comes from elsewhere, and so does what the script of a package downloads.
        """
        elsewhere = self.image or self.lacks_python or _OWN_SCRIPT.search(self.log)
        return not elsewhere and bool(_NO_INDEX.search(self.log))


class EnvironmentRecord(Frozen):
    """The attempts of a run, and the one in use."""

    tried: tuple[TriedAttempt, ...] = ()
    chosen: int | None = None
    """The index in `tried` of the attempt in use; None before the first."""
    installation: Installation | None = None
    """What the chosen attempt installed, according to its installer."""
    asked: bool = False
    given_up: str = ""
    """Why the model gave up, in its own words. Untrusted."""
    finished: bool = False

    @property
    def best(self) -> TriedAttempt | None:
        return None if self.chosen is None else self.tried[self.chosen]

    @property
    def health(self) -> Health | None:
        """The health of the environment in use."""
        return self.best.health if self.best else None

    def lines(self) -> tuple[str, ...]:
        """A line for each attempt. Untrusted."""
        return tuple(attempt.line() for attempt in self.tried)

    def complaint(self) -> str:
        """A sentence that the environment does not work, and why; empty if it works. Untrusted."""
        health = self.health
        if health is None or health.grade is not Grade.BROKEN:
            return ""
        why = f" The model gave up: {self.given_up}" if self.given_up else ""
        return (  # the advice before what may be long: a long text is cut at its end
            f"The repository {health.works} in the environment that I could make. {self._advice()} "
            f"{health.summary()}{why}"
        )

    def tell_unsteady(self, passed: Iterable[str]) -> str:
        """Which of the tests `passed` failed while the environment was checked, as a sentence;
        empty if none. Untrusted."""
        names = sorted({*(self.health or Health()).failing} & {*passed})
        if not names:
            return ""
        several = agree(len(names), "test that passes", "tests that pass")
        return (
            f"{len(names):,} {several} without the change failed in an earlier run without it: "
            f"{join_names(names[:5])}{' and others' if names[5:] else ''}."
        )

    def tell_gap(self) -> str:
        """From which projects with tests no result came, in sentences; empty if from all some did.
        Untrusted."""
        health = self.health or Health()
        seen, projects = health.projects
        return f"{health.describe_reach()} {health.chosen}".strip() if seen < projects else ""

    def _advice(self) -> str:
        """What the maintainers can do, as a sentence."""
        best = self.best
        if best and best.name in ("setup", "dockerfile"):
            return f"Correct its `{best.name}`."
        if any(one.lacks_python or _NO_SUCH_VERSION.search(one.summary) for one in self.tried):
            return "Bring the version that it asks for with `dockerfile`: no `setup` can."
        return "Say in `setup` how it is installed."


def name_asker(tried: TriedAttempt, python: str) -> TriedAttempt:
    """`tried` with the truth about who asked for `python`, where that cannot be had: a model. The
    build container blames the configuration file."""
    if not tried.lacks_python:
        return tried
    have = ", ".join(tried.pythons)
    there = f", and the sandbox has {have}" if have else ""
    said = f"The model asked for Python {python}{there}. Python {python} could not be downloaded."
    return replace(tried, problem=said, log=tried.log.replace(tried.problem, said))


def state_python(summary: str, found: str) -> str:
    """`summary` with the Python that the environment really has: `found`, such as `3.11.2`."""
    wanted = _PYTHON.match(summary)
    if wanted is None or not found:
        return summary
    has = ".".join(found.split(".")[:2])
    why = "" if has == wanted[1] else f" ({wanted[1]} is not installed)"
    return f"Python {has}{why}{summary[wanted.end() :]}"


def state_found(summary: str, log: str) -> str:
    """`summary` of a failed attempt with the Python and the day that the end of its `log` names."""
    python = re.findall(r"^python: (3\.\d{1,2}\.\d{1,3})$", log, re.MULTILINE)
    days = re.findall(r"--exclude-newer (\d{4}-\d\d-\d\d)", log)
    summary = state_python(summary, python[-1] if python else "")
    return state_day(summary, days[-1] if days else "")


def state_day(summary: str, as_of: str, later: Collection[str] = ()) -> str:
    """`summary` with the last day of the index that really counted: `as_of`, `YYYY-MM-DD`, and the
    packages for which `later` ones did."""
    planned = _DAY.search(summary)
    if planned is None or not as_of:
        return summary
    day = planned[0] if as_of == planned[1] else f"packages as of {as_of}"
    newer = f" (newer: {join_names(sorted(later), 5)})" if later else ""
    return f"{summary[: planned.start()]}{day}{newer}{summary[planned.end() :]}"


def best_of(tried: tuple[TriedAttempt, ...]) -> int | None:
    """The index of the best installed attempt; of equals, the first."""
    installed = [place for place, attempt in enumerate(tried) if attempt.image]
    return max(installed, key=lambda place: (*tried[place].rank, -place), default=None)


def is_enough(record: EnvironmentRecord) -> bool:
    """Whether no further attempt is worth its time."""
    # After this time of building and checking, no further attempt begins.
    if sum(attempt.seconds for attempt in record.tried) > 1800.0:
        return True
    # The installer's own sentence; each further attempt would take as long.
    never_ends = "The build of the package itself does not end"
    if any(attempt.problem.startswith(never_ends) for attempt in record.tried):
        return True
    unseen = any(attempt.image and attempt.health is None for attempt in record.tried)
    if unseen or any(_is_healthy(one.health) for one in record.tried) or fail_alike(record.tried):
        return True
    # A few tests fail, or a project has no results: one more attempt shows whether it is so
    # everywhere.
    return any(attempt.grade >= Grade.USABLE for attempt in record.tried[:-1])


def _is_healthy(health: Health | None) -> bool:
    """Whether all projects have results, and no test fails, or so few of many that they are likely
    to fail everywhere."""
    if health is None or health.grade < Grade.USABLE or len({*health.projects}) > 1:
        return False
    nearly = health.imports and health.passed >= 200 and 100 * health.failed <= health.passed
    return nearly or health.grade > Grade.USABLE


def fail_alike(tried: tuple[TriedAttempt, ...]) -> bool:
    """Whether two attempts ended alike with most tests passing: another one would, too."""
    seen = [attempt.health for attempt in tried if attempt.health and attempt.health.imports]
    ends = [(h.passed, h.failed, h.errors, h.files) for h in seen if h.passed > h.failed]
    return any(end in ends[:place] for place, end in enumerate(ends))


def explain_failure(record: EnvironmentRecord, submodules: Sequence[str] = ()) -> EnvironmentFailed:
    """The error for a repository that no attempt could install, with the first attempt's log.

    `submodules`: the paths of the repository's submodules.
    """
    first = record.tried[0]
    message = first.problem
    if len({attempt.problem for attempt in record.tried}) > 1:
        ways = " ".join(f"({number}) {line}" for number, line in enumerate(record.lines(), 1))
        message = f"None of {len(record.tried)} ways to install it worked. {ways}"
    if all(attempt.met_no_index for attempt in record.tried):
        several = len(record.tried) > 1
        what = f"None of {len(record.tried)} ways to install it worked." if several else message
        message = f"{what} {NO_INDEX}"
    if submodules:
        several = agree(len(submodules), "a submodule, which is", "submodules, which are")
        message += f" The repository has {several} not fetched: {join_names(submodules[:5])}."
    if record.given_up:
        message += f" The model gave up: {record.given_up}"
    return EnvironmentFailed(message, command=first.command, log=first.log)
