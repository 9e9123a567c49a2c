"""From a token to trained models, as docs/learning.md shows it: its commands, and what they print.

To write the page's part anew, empty it between its marks and run this test.
"""

import asyncio
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine

from bot.cli import main
from capuchin_demo.hub import pull_actions
from capuchin_demo.recorded.recording import ReceivedRequest, RecordedAnswer, Recording
from capuchin_demo.recorded.server import RecordedServer
from tests.e2e import shop
from tests.support.certificates import host_certificates
from tests.support.github.hub import LocalHub

PAGE = Path(__file__).parents[2] / "docs/learning.md"
MARKS = ("<!-- begin: make test-learn -->\n", "<!-- end -->\n")
COMMANDS = (
    "learn collect data --github acme/shop --trees trees",
    "learn sample data --trees trees --out runs --set strategy=codemonkeys --set samples=2",
    "learn filter data --trees trees --out rows",
    "learn publish rows --out published",
    "learn train policy rows --base model --out policy --set epochs=1 --python V/bin/python",
    "learn train prm rows --base model --out prm --python V/bin/python",
    "learn train orm rows --base model --out orm --python V/bin/python",
    "learn judge rows orm --trees trees --python V/bin/python",
)
START = datetime(2026, 1, 5, tzinfo=UTC)
"""One pull request a day: one repository is split by time."""
BUGS = {
    "total": ("return a - b", "return a + b", "total(1, 2) == 3", "a, b"),
    "tax": ("return price * rate / 10", "return price * rate / 100", "tax(200, 5) == 10",
            "price, rate"),
    "rebate": ("return max(price - rebate, 9)", "return max(price - rebate, 0)",
               "rebate(3, 5) == 0", "price, rebate"),
    "stock": ("return sorted(items)[1:]", "return sorted(items)", "stock([2, 1]) == [1, 2]",
              "items"),
}  # fmt: skip
"""By function: the line with the bug, the right one, what holds then, and the parameters."""


class AnswerToIssue(RecordedAnswer):
    """An answer to questions about one issue, which stands at their beginning."""

    title: str

    def matches(self, received: ReceivedRequest) -> bool:
        said = any(f"Title: {self.title}\n" in one.text for one in received.messages)
        return said and super().matches(received)


def write_function(name: str, line: str) -> str:
    return f"def {name}({BUGS[name][3]}):\n    {line}\n"


def record_answers() -> Recording:
    """Scripted: of each issue, the first sample is right and the second is not."""
    found: list[RecordedAnswer] = []
    for name, (wrong, right, holds, _) in BUGS.items():
        script = (
            f"<script>\nimport sys\nfrom shop.{name} import {name}\n\nprint('{name} is called')\n"
            f"sys.exit(0 if {holds} else 2)\n</script>\n"
        )
        edits = (right, f"{wrong}  # {name}".replace("return ", "return 1 and "))
        title = f"{name}() is wrong"
        files = f"<ranking>\nshop/{name}.py\n</ranking>"
        found += [
            AnswerToIssue(call="ranking", title=title, reply=files),
            AnswerToIssue(call="testing", turn=0, title=title, reply=script),
            *(
                AnswerToIssue(
                    call=f"editing/{sample}", turn=0, title=title,
                    reply=shop.edit(f"    {line}", path=f"shop/{name}.py", before=f"    {wrong}"),
                )
                for sample, line in enumerate(edits)
            ),
        ]  # fmt: skip
    found.append(RecordedAnswer(call="selecting", reply="<choice>1</choice>"))
    return shop.answers(*found)


async def write_history(hub: LocalHub, traveller: time_machine.Traveller) -> None:
    """A repository in which four pull requests have mended a function each, with its test."""
    alice = hub.add_user("alice")
    files = {f"shop/{name}.py": write_function(name, bug[0]) for name, bug in BUGS.items()}
    kept = {path: shop.FILES[path] for path in ("shop/__init__.py", "pyproject.toml")}
    start = {"tests/test_kept.py": "def test_kept():\n    assert True\n"}
    repo = hub.add_repo("acme/shop", {**files, **kept, **start})
    repo.grant("alice", "write")
    for day, (name, (_, right, holds, _)) in enumerate(BUGS.items()):
        traveller.move_to(START + timedelta(days=day))
        body = f"What `{name}` of shop/{name}.py returns is not what one expects of {holds}."
        issue = await hub.open_issue(repo, f"{name}() is wrong", body, author="alice")
        test = f"from shop.{name} import {name}\n\n\ndef test_{name}():\n    assert {holds}\n"
        changed: dict[str, str | None] = {
            f"shop/{name}.py": write_function(name, right),
            f"tests/test_{name}.py": test,
        }
        await hub.commit(repo, name, changed, f"Mend {name}", "alice")
        new = pull_actions.NewPull(f"Mend {name}", f"Fixes #{issue.number}.", name, "main")
        await hub.merge(await pull_actions.open_pull(hub, repo, new, alice), "alice")


def mask(text: str) -> str:
    """What differs from one machine, or one training, to the next."""
    text = re.sub(r"\$\d+\.\d+", "$…", text)
    text = re.sub(r"[-+]?\d+\.\d+(?! %)|\d{4}-\d\d-\d\dT\S+", "…", text)
    return re.sub(r"(?<=… \| )[\d.]+(?= \| …)", "…", text)  # the weight


async def test_the_page_shows_what_its_commands_print(
    hub: LocalHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    trainer_python: str,
    base_model: Path,
) -> None:
    with time_machine.travel(START, tick=True) as traveller:
        await write_history(hub, traveller)
    if certificates := host_certificates():
        monkeypatch.setenv("CAPUCHIN_BUILD_CA_BUNDLE", certificates)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(base_model)
    monkeypatch.setenv("CAPUCHIN_GITHUB_URL", hub.url)
    monkeypatch.setenv("CAPUCHIN_GITHUB_TOKEN", hub.create_personal_token("alice"))
    monkeypatch.setenv("CAPUCHIN_SOLVER_MODEL", "anthropic:recorded-claude-sonnet-4-6")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "recorded")
    shown: list[str] = []
    async with RecordedServer(record_answers()).serve() as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        for command in COMMANDS:
            capsys.readouterr()
            words = [
                trainer_python if word == "V/bin/python" else word for word in shlex.split(command)
            ]
            assert await asyncio.to_thread(main, words) == 0
            shown += [f"$ capuchin {command}", mask(capsys.readouterr().out.rstrip()), ""]
    found = "```console\n" + "\n".join(shown).rstrip() + "\n```\n"
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(MARKS[0])
    told, end, after = rest.partition(MARKS[1])
    assert begin
    assert end
    if not told.strip():
        PAGE.write_text(before + begin + found + end + after, encoding="utf-8")
        pytest.fail("docs/learning.md was written: read it, and run the test again")
    assert told == found
