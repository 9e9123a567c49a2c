"""A tiny repository with a bug and a test folder, and recorded answers that find it."""

from capuchin_demo.recorded.recording import RecordedAnswer, Recording
from tests.support.data.diffs import diff_of
from tests.support.texts import texts_of

TITLE = "total() subtracts"
BODY = "`total(1, 2)` in shop/till.py gives -1 and not 3."
CONFIG = "version: 1\nsamples: 2\n"
ONE_SAMPLE = CONFIG.replace("samples: 2", "samples: 1")
FILES = {
    "shop/__init__.py": "",
    "shop/till.py": (
        "def total(a, b):\n    return a - b\n\n\ndef count(items):\n    return len(items)\n"
    ),
    "tests/test_till.py": (
        "from shop.till import count\n\n\ndef test_count():\n    assert count([1, 2]) == 2\n"
    ),
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    ".github/capuchin.yml": CONFIG,
}
TILL, TESTS = FILES["shop/till.py"], FILES["tests/test_till.py"]
GOLD = diff_of(TILL, TILL.replace("a - b", "a + b"), "shop/till.py")
TOTAL = "from shop.till import total\n\n    assert total(1, 2) == 3\n"
TEST_PATCH = diff_of(TESTS, f"{TESTS}\n\ndef test_total():\n    {TOTAL}", "tests/test_till.py")
NAMES = "tests/test_till.py::{}"
TEXTS = texts_of(__file__)
SCRIPT: str = TEXTS["SCRIPT"]
APPROVED = "<approve/>"
APPROACHES = "<approaches>\n1. Add instead of subtracting.\n2. Mend the callers.\n</approaches>"
PROOF: str = TEXTS["PROOF"]


def edit(after: str, *, path: str = "shop/till.py", before: str = "    return a - b") -> str:
    """A reply that replaces one line."""
    return f"<edit>\n{path}\n<<<<<<< SEARCH\n{before}\n=======\n{after}\n>>>>>>> REPLACE\n</edit>\n"


RIGHT = edit("    return a + b")
WRONG = edit("    return abs(a - b)")
RIGHT_AT_ONCE = RecordedAnswer(call="editing/0", turn=0, reply=RIGHT)
"""One sample (`ONE_SAMPLE`) is enough with it, where a test is not about the choice."""
SEARCHING = (
    RecordedAnswer(call="understanding", reply="<files>\nshop/till.py: total() adds\n</files>"),
    RecordedAnswer(call="localisation/0", turn=0, reply="<bash>\ncat -n shop/till.py\n</bash>"),
    RecordedAnswer(
        call="localisation/0", reply="<places>\nshop/till.py:2: it subtracts\n</places>"
    ),
    RecordedAnswer(call="localisation/1", reply="<places>\nshop/till.py:5-6: it counts\n</places>"),
)
"""What a search of two answers a stage says."""


def answers(*first: RecordedAnswer) -> Recording:
    """The recording of a run that finds the fix; `first` come before, and so instead."""
    usual = (
        RecordedAnswer(call="ranking", reply="<ranking>\nshop/till.py\n</ranking>"),
        RecordedAnswer(call="approaches", reply=APPROACHES),
        RecordedAnswer(call="testing", turn=0, reply=SCRIPT),
        RecordedAnswer(call="testing", reply=APPROVED),
        RecordedAnswer(call="editing/0", turn=0, reply=WRONG),
        RecordedAnswer(call="editing/1", turn=0, reply=RIGHT),
        RecordedAnswer(call="editing", reply=APPROVED),
        RecordedAnswer(call="reproduction", reply=PROOF),
    )
    return Recording(version=1, note="Written by hand for a test.", answers=(*first, *usual))
