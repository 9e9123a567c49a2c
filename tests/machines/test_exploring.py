"""The exploring machine, with commands that really run; other tests run them sealed."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.data.code_places import Context, SourceFile
from pipeline.data.options import Options
from pipeline.generation.diversity import EditTask
from pipeline.generation.exploring import OUTPUT_BYTES, ExploringMachine, ExploringState
from pipeline.machine import drive
from pipeline.models.base import Price
from pipeline.regression.near_tests import NearbyTests
from pipeline.state import Phase
from pipeline.store import DirStore
from sandbox.program import NO_GIT
from tests.support.data.solver_shop import FILES, GOOD_EDIT, GOOD_SCRIPT, ISSUE, Shop, open_shop
from tests.support.fakes import Answer, DyingStore, Killed, ScriptedModel
from tests.support.texts import texts_of

FIX = "sed -i 's/result -= price/result += price/' shop/till.py"
SUBMIT = "It is right.\n\n<submit/>"


def bash(command: str) -> str:
    return f"I look.\n\n<bash>\n{command}\n</bash>"


SIZES = dict.fromkeys([*FILES][1:4], 9_000)
"""Tokens of the files that are shown."""


def machine(shop: Shop, model: ScriptedModel, **options: object) -> ExploringMachine:
    return machine_shown(shop, model, SIZES, options)


def machine_shown(
    shop: Shop, model: ScriptedModel, sizes: Mapping[str, int], options: Mapping[str, object]
) -> ExploringMachine:
    resources = shop.workspace(Options.model_validate(options)).with_model(model)
    files = tuple(
        SourceFile(path=path, text=FILES.get(path, ""), tokens=tokens)
        for path, tokens in sizes.items()
    )
    return ExploringMachine(resources, EditTask(ISSUE, Context(files=files), sample=0))


async def explore(
    shop: Shop, *replies: Answer, **options: object
) -> tuple[ExploringState, list[str]]:
    """The machine's end, and what it was told after each reply."""
    model = ScriptedModel({"exploring/0": replies})
    state = await drive(
        machine(shop, model, **options),
        ExploringState,
        DirStore(shop.folder / "store"),
        "editing/0",
    )
    told = [message.text for message in state.messages[2:] if message.role == "user"]
    return state, [*told, state.pending]


async def test_it_explores_edits_by_commands_and_blocks_and_submits(shop: Shop) -> None:
    state, told = await explore(
        shop,
        bash("cat shop/till.py | head -3; exit 3"),
        GOOD_SCRIPT,
        bash(FIX + "; git diff --stat; echo 'def more(): pass' > shop/more.py"),
        bash("cat shop/more.py; rm shop/more.py; grep -c += shop/till.py"),
        "<tests>\ntests/test_till.py\n</tests>",
        "<edit>\nshop/till.py\n<<<<<<< SEARCH\n        result += price\n=======\n"
        "        result = result + price\n>>>>>>> REPLACE\n</edit>",
        SUBMIT,
    )
    assert state.phase is Phase.APPROVED
    assert "Exit code 3" in told[0]
    assert "result = 0" in told[0]
    assert "Exit code 2" in told[1]
    assert "+        result += price" in told[2]
    assert "+def more(): pass" in told[2]
    assert "def more(): pass" in told[3]
    assert "\n1\n" in told[3]
    assert "shop/more.py" not in told[3].partition("<diff>")[2]
    assert "2 tests passed, 0 failed." in told[4]
    # The run without the edit does not change.
    assert "exit code 2" in told[5]
    assert "Exit code 0" in told[5]
    candidate = state.candidate(0)
    assert candidate
    assert candidate.test
    assert (candidate.machine, candidate.model) == ("explore", "scripted")
    assert "+        result = result + price\n" in candidate.patch.diff
    assert candidate.patch.diff == state.diff
    assert state.edited[-1].passed


async def test_a_script_and_the_edit_that_it_tests_may_stand_in_one_reply(shop: Shop) -> None:
    state, told = await explore(shop, f"{GOOD_SCRIPT}\n{GOOD_EDIT}", SUBMIT)
    assert state.phase is Phase.APPROVED
    assert [len(state.scripts), len(state.base), len(state.attempts)] == [1, 1, 2]
    assert "Exit code 2" in told[0]
    assert "Exit code 0" in told[0]


async def test_a_command_hears_in_a_line_that_there_is_no_git_and_greps_only_sources(
    shop: Shop,
) -> None:
    _, told = await explore(
        shop,
        bash("git diff HEAD; git log -3; git diff --no-index --stat shop/till.py shop/__init__.py"),
        bash("git init -q /tmp/g$$ && cd /tmp/g$$ && git status --short && git -C . log"),
        bash("mkdir shop/__pycache__; cp shop/till.py shop/__pycache__/a.pyc; grep -rl result"),
        bash(FIX),
        SUBMIT,
    )
    assert told[0].count(NO_GIT) == 2
    assert "usage" not in told[0]
    assert "1 file changed" in told[0]
    assert "does not have any commits yet" in told[1]
    assert "\nshop/till.py\n" in told[2]
    assert "__pycache__" not in told[2]


async def test_the_likeliest_file_is_shown_even_if_it_leaves_no_room_for_others(shop: Shop) -> None:
    sizes = {"shop/till.py": 25_000, "shop/__init__.py": 300, "README.md": 90_000}
    opening = machine_shown(shop, ScriptedModel({}), sizes, {}).start().messages[0].text
    assert '<file path="shop/till.py">' in opening
    assert "\nshop/__init__.py\nREADME.md\n</output>" in opening
    largest_first = {"README.md": 90_000, **sizes}
    opening = machine_shown(shop, ScriptedModel({}), largest_first, {}).start().messages[0].text
    assert '<file path="README.md"' in opening
    assert "on it is left out ...]" in opening
    assert "\nshop/till.py\nshop/__init__.py\n</output>" in opening


TEXTS = texts_of(__file__)
TWO_FILES: str = TEXTS["TWO_FILES"]


@pytest.mark.parametrize(
    ("command", "names", "ran"),
    [
        ("python -m pytest", "::test_one", ["one", "one"]),
        ("python -m pytest", "::test_one[2]", ["one"]),
        ("python -m pytest", "::Case::test_two", ["two"]),
        ("python -m pytest", "::test_two", ["two"]),
        ("python -m pytest", "::Case", ["three", "two"]),
        ("python -m unittest discover -s tests", "::Case::test_two", ["two"]),
        ("python -m unittest discover -s tests", "::test_three", ["three"]),
    ],
)
async def test_only_the_tests_that_it_names_are_run(
    shop: Shop, tmp_path: Path, command: str, names: str, ran: list[str]
) -> None:
    log = tmp_path / "ran"
    _, told = await explore(
        shop,
        TWO_FILES.replace("/tmp/LOG", str(log)),
        f"<tests>\ntests/test_more.py{names}\n</tests>",
        bash(FIX),
        SUBMIT,
        test_command=command.split(),
    )
    assert sorted(log.read_text().split()) == ran
    assert f"{len(ran)} test{'s' if len(ran) > 1 else ''} passed, 0 failed." in told[1]


async def test_a_file_that_it_names_whole_is_run_whole_beside_a_named_test(
    shop: Shop, tmp_path: Path
) -> None:
    log = tmp_path / "ran"
    _, told = await explore(
        shop,
        TWO_FILES.replace("/tmp/LOG", str(log)),
        "<tests>\ntests/test_more.py::test_one_more\ntests/test_whole.py\n</tests>",
        "<tests>\ntests/test_more.py::test_none\n</tests>",
        bash(FIX),
        SUBMIT,
    )
    assert sorted(log.read_text().split()) == ["more", "more", "one", "one", "three", "two"]
    assert "6 tests passed, 0 failed." in told[1]
    assert "0 tests passed, 0 failed. " in told[2]


async def test_tests_that_are_skipped_are_counted(shop: Shop) -> None:
    text = "import pytest\n\n@pytest.mark.skip\ndef test_a(): pass\n\ndef test_b(): pass\n"
    _, told = await explore(
        shop,
        bash(f"cat > tests/test_skips.py <<'END'\n{text}END"),
        "<tests>\ntests/test_skips.py\n</tests>",
        bash(FIX),
        SUBMIT,
    )
    assert re.search(r"1 \D+passed, 0 failed, 1 skipped", told[1])


async def test_a_command_sees_the_edit_so_far_and_nothing_else_of_the_others(shop: Shop) -> None:
    _, told = await explore(
        shop,
        bash(f"{FIX}; cd tests; export WORD=kept; echo x > /tmp/explored-$$"),
        bash("pwd; echo [$WORD]; git diff; grep -c += shop/till.py; ls -a"),
        SUBMIT,
    )
    assert "[]\n" in told[1]
    assert "\n1\n" in told[1]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml", "workflow"),
        ("ln -s /etc/passwd shop/link.py", "symbolic link"),
        ("printf 'a\\0b' > shop/data.bin", "not a text file"),
        ("for n in $(seq 60); do echo > shop/f$n.py; done", "61 changed files"),
        ("echo x > shop/secret.py", "settings forbid"),
        ("mkfifo pipe", "neither a file nor a link"),
        ("echo x > uv.lock", "lock file"),
        ("truncate -s 2M shop/large.py", "bytes"),
    ],
)
async def test_the_guards_of_edits_act_on_what_a_command_left(
    shop: Shop, command: str, why: str
) -> None:
    state, told = await explore(
        shop, bash(FIX), bash(command), SUBMIT, never_touch=("shop/secret*",)
    )
    assert why in told[1]
    assert "+        result += price" in state.diff
    assert state.diff.count("diff --git") == 1


async def test_what_git_ignores_is_no_part_of_the_edit(tmp_path: Path) -> None:
    shop = await open_shop(tmp_path, {**FILES, ".gitignore": "/build/\n*.log\n"})
    state, _ = await explore(
        shop,
        bash(f"{FIX}; mkdir build; echo > build/x; echo > a.log; python -c 'import shop.till'"),
        SUBMIT,
    )
    assert state.diff.count("diff --git") == 1


async def test_the_end_of_a_long_output_is_kept(shop: Shop) -> None:
    _, told = await explore(shop, bash("seq 20000; echo the end"), bash(FIX), SUBMIT)
    assert "the end" in told[0]
    assert "left out" in told[0]
    assert len(told[0]) < 2 * OUTPUT_BYTES


async def test_a_submission_that_its_script_does_not_bear_out_is_asked_again(shop: Shop) -> None:
    state, told = await explore(
        shop, SUBMIT, GOOD_SCRIPT, bash("echo '# nothing' >> shop/till.py"), SUBMIT, SUBMIT
    )
    assert "nothing to submit" in told[0]
    assert "exit" in told[3]
    assert state.phase is Phase.APPROVED
    assert not state.edited[-1].passed


EDIT: str = TEXTS["EDIT"]


async def test_an_edit_may_be_submitted_in_the_same_reply(shop: Shop) -> None:
    state, told = await explore(
        shop,
        GOOD_SCRIPT,
        f"{bash('true')}\n\n<submit/>",
        EDIT.format("-=", "*="),
        EDIT.format("*=", "+="),
    )
    assert ("<submit/>" in told[1], "<bash>" in told[1]) == (True, True)
    assert "exit" in told[2]
    assert "answer <submit/> again" in told[2]
    assert state.phase is Phase.APPROVED
    assert state.edited[-1].passed


async def explore_with_near_tests(shop: Shop, *replies: Answer) -> ExploringState:
    """The end of a machine whose edit is run with the tests near it, and is taken."""
    store, model = DirStore(shop.folder / "store"), ScriptedModel({"exploring/0": replies})
    resources = shop.workspace().with_model(model)
    near = NearbyTests(resources)
    task = EditTask(ISSUE, Context(files=()), sample=0, own_tests=near)
    state = await drive(ExploringMachine(resources, task), ExploringState, store, "editing/0")
    assert state.phase is Phase.APPROVED
    return state


async def test_a_submission_whose_own_test_fails_is_sent_back_once(shop: Shop) -> None:
    own = (
        "tests/test_till.py\n<<<<<<< SEARCH\ndef test_total_of_nothing():\n=======\n"
        "def test_total_adds():\n    assert total([1, 2]) == 4\n\n\ndef test_total_of_nothing():\n"
        ">>>>>>> REPLACE\n</edit>"
    )
    both = f"{GOOD_EDIT.removesuffix('</edit>')}{own}"
    state = await explore_with_near_tests(shop, GOOD_SCRIPT, both, SUBMIT, SUBMIT)
    (told,) = [m.text for m in state.messages if "only with the edit" in m.text]
    assert "tests/test_till.py::test_total_adds" in told
    assert "assert 3 == 4" in told


async def test_a_script_that_fails_is_told_before_the_tests_near_the_edit_run(shop: Shop) -> None:
    breaks = bash("sed -i 's/return len(prices)/return 7/' shop/till.py")
    state = await explore_with_near_tests(shop, GOOD_SCRIPT, breaks, SUBMIT, SUBMIT, SUBMIT)
    told = [m.text for m in state.messages if "answer <submit/> again" in m.text]
    assert ["test_count" in text for text in told] == [False, True]
    assert state.broken[-1] == ("tests/test_till.py::test_count",)


OUT_OF_DATE: str = TEXTS["OUT_OF_DATE"]


async def test_a_test_that_fails_otherwise_with_the_edit_is_shown_before_it_is_submitted(
    tmp_path: Path,
) -> None:
    """It fails on the base by a fault of the sandbox; the edit makes it out of date."""
    shop = await open_shop(tmp_path, {**FILES, "tests/test_sign.py": OUT_OF_DATE})
    state = await explore_with_near_tests(shop, GOOD_SCRIPT, GOOD_EDIT, SUBMIT, SUBMIT)
    name = "tests/test_sign.py::test_total_is_negative"
    (told,) = [m.text for m in state.messages if "with another exception" in m.text]
    assert re.search(rf"{re.escape(name)}: KeyError\b.+\bAssertionError\b", told)
    assert "assert 3 == 0" in told


async def test_it_ends_at_its_replies_or_its_share_of_the_money_and_keeps_its_edit(
    shop: Shop,
) -> None:
    state, told = await explore(shop, bash(FIX), bash("true"), turns=3)
    assert (state.phase, len(state.attempts)) == (Phase.OUT_OF_ATTEMPTS, 3)
    assert "1 reply left" in told[1]
    assert state.candidate(0) is not None


async def test_its_money_ends_it_and_few_replies_are_announced_by_their_price(shop: Shop) -> None:
    replies = [bash(FIX), *[bash("true")] * 30]
    model = ScriptedModel({"exploring/0": replies}, price=Price(output=20_000))
    explorer = machine(shop, model, dollars=7.9, samples=10)  # 0.1 a reply
    store = DirStore(shop.folder / "store")
    state = await drive(explorer, ExploringState, store, "editing/0")
    assert (state.phase, len(state.attempts)) == (Phase.OUT_OF_SHARE, 8)
    told = [message.text for message in state.messages if message.role == "user"]
    assert [at for at, text in enumerate(told) if "left: submit in time" in text] == [4, 5, 6, 7, 8]
    assert "5 replies left" in told[4]


async def test_an_edit_that_was_not_submitted_in_time_is_checked_all_the_same(shop: Shop) -> None:
    """It counted as one that breaks nothing."""
    breaking = "sed -i 's/return len(prices)/return 7/' shop/till.py"
    resources = shop.workspace(Options(turns=3))
    model = ScriptedModel({"exploring/0": [GOOD_SCRIPT, bash(FIX), bash(breaking)]})
    own_tests = NearbyTests(resources)
    task = EditTask(ISSUE, Context(files=()), sample=0, own_tests=own_tests)
    explorer = ExploringMachine(resources.with_model(model), task)
    state = await drive(explorer, ExploringState, resources.store, "editing/0")
    assert state.phase is Phase.OUT_OF_ATTEMPTS
    assert state.broken == [("tests/test_till.py::test_count",)]
    assert state.edited[-1].exit_code == 0


async def test_the_scratch_folder_outlives_a_command_and_is_in_no_edit(shop: Shop) -> None:
    state, told = await explore(
        shop,
        bash("mkdir .scratch; echo 'echo $((6 * 7))' > .scratch/tool.sh; " + FIX),
        bash("sh .scratch/tool.sh; printf '\\377\\376' > .scratch/x.bin"),
        bash("ls .scratch; head -c 1000001 /dev/zero | tr '\\0' a > .scratch/big"),
        "<edit>\n.scratch\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n</edit>",
        bash("ls .scratch; rm .scratch/tool.sh; ln -s shop .scratch/link"),
        bash("ls -d .scratch"),
        SUBMIT,
    )
    assert "42" in told[1]
    assert "1 dropped" in told[1]
    assert "tool.sh\n</output>" in told[2]
    assert "more than 1,000,000 bytes" in told[2]
    assert "'.scratch'" in told[3]
    assert "tool.sh\n</output>" in told[4]
    assert "No such file" in told[5]
    assert state.phase is Phase.APPROVED
    assert ".scratch" not in state.diff
    assert "+        result += price" in state.diff


async def test_a_repository_that_has_such_a_folder_keeps_it(tmp_path: Path) -> None:
    shop = await open_shop(tmp_path, {**FILES, ".scratch/own.py": "x = 1\n"})
    state, told = await explore(
        shop,
        bash("echo 'x = 2' > .scratch/own.py; mkdir .scratch_; echo a > .scratch_/note"),
        bash("cat .scratch_/note"),
        SUBMIT,
    )
    assert "own.py' steers" in told[0], "its own folder is no scratch folder"
    assert "\na\n" in told[1]
    assert state.scratch == {".scratch_/note": "a\n"}


async def test_killed_at_every_checkpoint_it_ends_the_same(shop: Shop, tmp_path: Path) -> None:
    replies = (bash("ls"), "Only words.", GOOD_SCRIPT, bash(FIX), bash("git status"), SUBMIT)
    whole, _ = await explore(shop, *replies)
    asked = len(whole.attempts)
    for dies_at in range(1, 2 * asked):
        folder = tmp_path / str(dies_at)
        model = ScriptedModel({"exploring/0": replies})
        with pytest.raises(Killed):
            await drive(
                machine(shop, model), ExploringState, DyingStore(folder, dies_at), "editing/0"
            )
        state = await drive(machine(shop, model), ExploringState, DirStore(folder), "editing/0")
        assert state == whole
        assert len(model.asked) <= asked + 1  # at most the call whose reply was lost
