"""Why a remote refused a push, in its own words.

https://docs.github.com/repositories/configuring-branches-and-merges-in-your-repository/managing-rulesets/troubleshooting-rules
https://docs.github.com/code-security/secret-scanning/working-with-secret-scanning-and-push-protection
"""

import re
from typing import Final

from bot.data.failure import PublishProblem

_SAYS_NOTHING: Final = frozenset({
    "push declined due to repository rule violations", "pre-receive hook declined", "hook declined",
})  # fmt: skip
_CODE: Final = re.compile(r"\bGH\d{3}\b|rule violation", re.I)
"""GitHub's own checks are hooks, too, and say which they are."""
_RULE: Final = re.compile(r"[\W_]*")
_PROBLEMS: Final[tuple[tuple[PublishProblem, re.Pattern[str]], ...]] = (
    ("workflows", re.compile(r"`workflows?` permission|create or update workflow", re.I)),
    ("secrets", re.compile(r"push protection|contains? secrets", re.I)),
    ("signatures", re.compile(r"verified signature|must be signed|signed commits", re.I)),
    ("archived", re.compile(r"archived", re.I)),
    ("commit message", re.compile(r"commit message", re.I)),
    ("author", re.compile(r"(author|committer)('s)? e-?mail", re.I)),
    ("file size", re.compile(r"\bGH001\b|large files? detected|file size limit", re.I)),
    ("large file storage", re.compile(r"\bGH008\b|LFS objects?", re.I)),
    ("restricted path", re.compile(r"(path|file|extension)s? .{0,200}\brestricted", re.I)),
    ("allow list", re.compile(r"IP allow list|IP address is not permitted", re.I)),
    ("branch name", re.compile(r"branch name|cannot create ref|creations being", re.I)),
    ("permission", re.compile(r"not granted|permission|not accessible|error: 403", re.I)),
    ("branch moved", re.compile(r"stale info|fetch first|fast.forward|cannot lock ref", re.I)),
)


def read_push_refusal(words: str) -> tuple[PublishProblem, str]:
    """The problem in git's error output, and what the remote said: its lines without rulers.

    The text is untrusted, and as long as git's output was.
    """
    lines: list[str] = []
    for line in words.splitlines():
        if line.startswith("remote:"):
            lines.append(line.removeprefix("remote:").strip())
        elif line.startswith(" ! [") and line.endswith(")"):
            lines.append(line[:-1].rpartition("(")[2])
    said = "\n".join(
        line for line in lines if not _RULE.fullmatch(line) and line not in _SAYS_NOTHING
    )
    problem = find_problem(said or words)
    if problem == "rule" and "pre-receive hook declined" in words and not _CODE.search(words):
        problem = "hook"
    return problem, said


def find_problem(words: str) -> PublishProblem:
    """What the remote's words are about."""
    found: list[PublishProblem] = [one for one, sign in _PROBLEMS if sign.search(words)]
    return found[0] if found else "rule"
