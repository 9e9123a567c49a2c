"""What Capuchin never does, whatever it is told: held by its source, and by what it may send."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FORBIDDEN = (
    r'"merge"',  # PUT /pulls/N/merge, and merge-upstream
    r'"merges"',
    r"mergePullRequest|enablePullRequestAutoMerge|enqueuePullRequest",
    r"addPullRequestReview|submitPullRequestReview",
    r"\"APPROVE\"|'APPROVE'|\"event\"",
    r'"POST", "pulls", \w+, "reviews"',
    r'"dismissals"',
)


def test_no_code_of_ours_can_approve_or_merge() -> None:
    sources = [path for path in (ROOT / "bot").rglob("*.py") if "localhub" not in path.parts]
    assert len(sources) > 80
    for path in sources:
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\.send\(|mutat|graphql", text):
            continue
        found = [bad for bad in FORBIDDEN if re.search(bad, text)]
        assert found == [], path
