"""A small repository with a bug, its issue, and a model that knows several answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bot.data.progress import describe
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.progress import Event
from pipeline.data.types import Issue
from pipeline.localisation.process_reward import ProcessReward
from pipeline.models.base import Message
from pipeline.resources import Workspace
from pipeline.solve import Solver
from pipeline.store import DirStore, Store
from pipeline.workflows.outcome import Models
from tests.support.data.repositories import make_codebase
from tests.support.fakes import Answer, ScriptedModel, SubprocessSandbox

FILES = {
    "shop/__init__.py": "",
    "shop/till.py": (
        "def total(prices):\n    result = 0\n    for price in prices:\n        result -= price\n"
        "    return result\n\n\ndef count(prices):\n    return len(prices)\n"
    ),
    "shop/names.py": "def polite(name):\n    return f'Dear {name}'\n",
    "tests/test_till.py": (
        "from shop.till import count, total\n\n\ndef test_count():\n    assert count([1, 2]) == 2\n"
        "\n\ndef test_total_of_nothing():\n    assert total([]) == 0\n"
    ),
    "pyproject.toml": "[tool.pytest.ini_options]\n",
}
ISSUE = Issue(
    repository="acme/shop",
    title="total() subtracts",
    body="`total([1, 2])` in shop/till.py gives -3 and not 3.",
    discussion=("ann: me too",),
)


def script(expression: str) -> str:
    return (
        "I test it so.\n\n<script>\nimport sys\nfrom shop.till import total\n"
        f"ok = {expression}\nprint(ok)\nsys.exit(0 if ok else 2)\n</script>\n"
    )


def edit(search: str, replace: str) -> str:
    return (
        "<edit>\nshop/till.py\n<<<<<<< SEARCH\n"
        f"{search}\n=======\n{replace}\n>>>>>>> REPLACE\n</edit>"
    )


GOOD_SCRIPT = script("total([1, 2]) == 3")
WEAK_SCRIPT = script("total([1, 2]) > 0")
SHARP_SCRIPT = script("total([1, -2]) == -1 and total([0.5]) == 0.5")
BROKEN_SCRIPT = "<script>\nimport nowhere\n</script>"
PASSING_SCRIPT = script("True")
GOOD_EDIT = edit("        result -= price", "        result += price")
LONGER_GOOD_EDIT = edit(
    "    result = 0\n    for price in prices:\n        result -= price\n    return result",
    "    # Summed as they come.\n    return sum(prices)",
)
ABSOLUTE_EDIT = edit("    return result", "    return abs(result)")
BREAKING_EDIT = (
    GOOD_EDIT.removesuffix("</edit>")
    + "<<<<<<< SEARCH\n    return len(prices)\n=======\n    return 7\n>>>>>>> REPLACE\n</edit>"
)
WRONG_EDIT = edit("    result = 0", "    result = 1")
TEST_FILE = (
    "<test_file>\nfrom shop.till import total\n\n\ndef test_total_adds():\n"
    "    assert total([1, 2]) == 3\n</test_file>\n<title>Add prices up in total().</title>\n"
    "<cause>The sign was wrong.</cause>\n<change>It adds now.</change>"
)
RANKING = "<ranking>\nshop/till.py\nshop/invented.py\n</ranking>"
APPROVE = "It is right.\n\n<approve/>"


def relevance(messages: Sequence[Message]) -> str:
    if 'path="shop/till.py"' in messages[-1].text:
        return "**RELEVANCE: Relevant**\n\n**Summary:** Adds up.\n\nIt holds total()."
    if 'path="shop/names.py"' in messages[-1].text:
        return "I cannot say."
    return "RELEVANCE: not relevant\nSUMMARY: nothing"


def sample(number: int, *edits: Answer, test: Answer = GOOD_SCRIPT) -> dict[str, list[Answer]]:
    return {f"testing/{number}": [test, APPROVE], f"editing/{number}": list(edits)}


COMMON: dict[str, list[Answer]] = {
    "approaches": ["I would have to see the code."],
    "ranking/0": [RANKING],
    "relevance": [relevance],
    "reproduction": [TEST_FILE],
}


def simple(*edits: Answer, **more: list[Answer]) -> dict[str, list[Answer]]:
    """One sample that gives these edits."""
    return {**COMMON, **sample(0, *edits), **more}


@dataclass(repr=False)
class Shop:
    """Everything one solve needs; without a repr, which asyncio makes of each fixture's result."""

    codebase: Codebase
    sandbox: SubprocessSandbox
    folder: Path
    events: list[Event] = field(default_factory=list[Event])
    """What its runs reported."""

    @property
    def said(self) -> list[str]:
        """The sentences for people among the events."""
        return [text for event in self.events if (text := describe(event).text)]

    def workspace(self, options: Options | None = None, store: Store | None = None) -> Workspace:
        store = store or DirStore(self.folder / "store")
        options = options or Options()
        return Workspace(
            self.sandbox, self.codebase, store, options, on_progress=self.events.append
        )

    def solver(
        self,
        model: ScriptedModel,
        *,
        store: Store | None = None,
        scout: bool = True,
        prm: ProcessReward | None = None,
        **set_: object,
    ) -> Solver:
        options = Options.model_validate({"samples": 1, "rankings": 1, "attempts": 4, **set_})
        models = Models(solver=model, scout=model if scout else None, prm=prm)
        return Solver(models, self.workspace(options, store))


async def open_shop(folder: Path, files: dict[str, str] | None = None) -> Shop:
    codebase = await make_codebase(folder / "shop.git", FILES if files is None else files)
    return Shop(codebase, SubprocessSandbox(await codebase.build_tree()), folder)
