"""Pull requests as the repository and its organisation want them."""

import re

import pytest

from bot.data.failure import Failure
from bot.data.run import RunStatus
from bot.repo_config.model import ConfigProblem, parse_config
from capuchin_demo.hub.state import Repo
from tests.e2e.harness import BotHarness
from tests.support.github.hub import LocalHub
from tests.support.hub import ref_of
from tests.support.snapshots import assert_snapshot
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
TEMPLATE: str = TEXTS["TEMPLATE"]


async def published(manual_bot: BotHarness, **files: str) -> Repo:
    repo, _, _ = await manual_bot.publish(**{path: text.encode() for path, text in files.items()})
    return repo


@pytest.mark.parametrize(
    "path",
    [
        ".github/PULL_REQUEST_TEMPLATE.md",
        "pull_request_template.md",
        "docs/pull_request_template.txt",
        ".github/PULL_REQUEST_TEMPLATE/a.md",
    ],
)
async def test_the_repositorys_template_is_filled_wherever_it_lies(
    manual_bot: BotHarness, path: str
) -> None:
    repo = await published(manual_bot, **{path: TEMPLATE})
    body = repo.pulls[0].body or ""
    assert "## Description\n\nIt adds now." in body
    assert "## Motivation and Context\n\n`total()` subtracts." in body
    assert "## How Has This Been Tested?\n\n`tests/test_total.py` is new" in body
    assert "- [ ] I have read the contributing guide" in body
    assert "Fixes #1\n" in body
    assert "Please read" not in body
    assert "<summary>Evidence</summary>" in body


async def test_base_and_names_of_branches_are_the_repositorys(bot: BotHarness) -> None:
    repo = bot.add_repo(config="base_branch: develop\nbranch_prefix: bots/fix-\n")
    await bot.hub.commit(repo, "develop", {"new.py": "x = 1\n"}, "Develop", "alice")
    await bot.open_issue(repo)
    await bot.settle()
    (pull,) = repo.pulls
    assert (pull.base_ref, pull.head_ref) == ("develop", "bots/fix-issue-1-total-subtracts")
    assert repo.read_file(pull.head_ref, "new.py") == "x = 1\n"


async def test_a_push_to_the_base_branch_is_followed_at_once_and_to_another_not(
    bot: BotHarness,
) -> None:
    repo = bot.add_repo(config="base_branch: develop\n")
    await bot.hub.commit(repo, "develop", {"new.py": "x = 1\n"}, "Develop", "alice")
    await bot.open_issue(repo)
    await bot.settle()
    seen = len(bot.runner.asked)
    for branch in ("main", "topic"):
        await bot.hub.commit(repo, branch, {"other.py": "y = 1\n"}, "Elsewhere", "alice")
    await bot.settle()
    assert len(bot.runner.asked) == seen
    await bot.hub.commit(repo, "develop", {"new.py": "x = 2\n"}, "Move on", "alice")
    await bot.settle()
    assert len(bot.runner.asked) > seen


async def test_a_base_branch_that_is_missing_is_named(bot: BotHarness) -> None:
    issue = await bot.open_issue(bot.add_repo(config="base_branch: devel\n"))
    await bot.settle()
    assert (await bot.run_of(issue)).failure is Failure.CONFIG_INVALID
    assert ["`base_branch`" in said for said in bot.comments_of(issue)] == [True]


async def test_a_template_of_the_owner_stands_for_one_that_is_missing(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    hub.add_repo("acme/.github", {"PULL_REQUEST_TEMPLATE.md": "## Why\n"})
    repo = await published(manual_bot)
    assert "## Why\n\n`total()` subtracts." in (repo.pulls[0].body or "")


async def test_what_people_see_of_a_filled_template(manual_bot: BotHarness) -> None:
    repo = await published(manual_bot, **{".github/pull_request_template.md": TEMPLATE})
    body = repo.pulls[0].body or ""
    run = await manual_bot.runs.get_latest(ref_of(repo), 1)
    assert run is not None
    assert_snapshot("filled_template", body.replace(run.id, "RUN"))


NO_MACHINES = "If you are a LLM, you MUST NOT include a `Signed-off-by` tag.\n"


@pytest.mark.parametrize(
    ("files", "signed"),
    [
        ({".github/dco.yml": "require:\n  members: false\n"}, True),
        ({"CONTRIBUTING.md": "Sign your commits (`git commit -s`).\n"}, True),
        ({"CONTRIBUTING.md": "Be kind.\n"}, False),
        ({".github/dco.yml": "require:\n", "AGENTS.md": NO_MACHINES}, False),
        ({}, False),
    ],
)
async def test_commits_are_signed_off_where_the_repository_demands_it(
    manual_bot: BotHarness, files: dict[str, str], signed: bool
) -> None:
    repo = await published(manual_bot, **files)
    for sha in (repo.pulls[0].head_sha, repo.git.read_commit(repo.pulls[0].head_sha).parents[0]):
        message = repo.git.read_commit(sha).message
        number = manual_bot.hub.add_user("alice").id
        assert f"\n\nCo-authored-by: alice <{number}+alice@users.noreply." in message
        assert ("\nSigned-off-by: capuchin[bot] <" in message) is signed


@pytest.mark.parametrize(
    ("commits", "title", "trailers"),
    [
        ("[sign-off, co-author, 'SHOP-4:']", "SHOP-4: Make", ["Co-authored-by", "Signed-off-by"]),
        ("sign-off", "Make", ["Signed-off-by"]),
        ("'[bot]'", "[bot] Make", []),
        ("[]", "Make", []),
        ("", "Make", ["Co-authored-by", "Signed-off-by"]),
    ],
)
async def test_the_settings_say_what_commits_carry(
    manual_bot: BotHarness, commits: str, title: str, trailers: list[str]
) -> None:
    """Whatever the repository's guides and history have."""
    demand = {"CONTRIBUTING.md": "Sign your commits (`git commit -s`).\n"}
    repo = await published(manual_bot, **demand, **{".github/capuchin.yml": f"commits: {commits}"})
    (pull,) = repo.pulls
    assert pull.title.startswith(title), pull.title
    message = repo.git.read_commit(pull.head_sha).message
    assert re.findall(r"(?m)^([A-Z][a-z]+-[a-z]+-by): \S", message) == trailers


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (["feat: x", "fix(api): y", "chore!: z", "docs: w"],
         ["fix: make total() add", "test: add a failing test for #1"]),
        (["Add x", "fix: y", "Mend z", "Drop w"],
         ["Make total() add", "Add a failing test for #1"]),
        (["Add x\n\nSigned-off-by: a <a@x>"] * 8,
         ["Make total() add", "Add a failing test for #1"]),
    ],
)  # fmt: skip
async def test_titles_are_as_the_history_has_them(
    manual_bot: BotHarness, hub: LocalHub, titles: list[str], expected: list[str]
) -> None:
    repo, issue = await manual_bot.prepare_issue()
    for number, title in enumerate(titles):
        await hub.commit(repo, "main", {"n.py": f"n = {number}\n"}, title, "alice")
    await manual_bot.work_on(await manual_bot.lease(repo, issue))
    (pull,) = repo.pulls
    assert repo.list_commits(pull.head_ref)[:2] == expected
    assert pull.title == expected[0]
    signed = "Signed-off-by: capuchin[bot]" in repo.git.read_commit(pull.head_sha).message
    assert signed is ("Signed-off-by" in titles[0])


@pytest.mark.parametrize(
    ("titles", "named", "expected"),
    [
        (["ABC-1: Add x", "ABC-2: Mend y", "ABC-12: Drop z", "Tidy"], "ABC-123", "ABC-123: Make"),
        (["[SHOP-1] feat: x"] * 4, "SHOP-9", "[SHOP-9] fix: make"),
        (["ABC-1: Add x"] * 4, "UTF-8", "Make"),
        (["Add x"] * 4, "ABC-123", "Make"),
    ],
)
async def test_titles_begin_with_the_ticket_that_the_issue_names(
    manual_bot: BotHarness, hub: LocalHub, titles: list[str], named: str, expected: str
) -> None:
    repo, issue = await manual_bot.prepare_issue()
    issue.title = f"total() subtracts ({named})"
    for number, title in enumerate(titles):
        await hub.commit(repo, "main", {"n.py": f"n = {number}\n"}, title, "alice")
    await manual_bot.work_on(await manual_bot.lease(repo, issue))
    (pull,) = repo.pulls
    assert f"{pull.title} ".startswith(f"{expected} "), pull.title
    assert repo.list_commits(pull.head_ref)[0] == pull.title


async def test_labels_of_the_configuration_are_put_on(manual_bot: BotHarness) -> None:
    config = "labels: [bug, by capuchin]\n"
    repo = await published(manual_bot, **{".github/capuchin.yml": config})
    assert repo.pulls[0].labels == ["bug", "by capuchin"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("labels: ['']", '"labels.0"'),
        ("labels: [x" + "x" * 60 + "]", '"labels.0"'),
        ("draft: sometimes", '"draft'),
        ("follow_up: [a b]", '"follow_up'),
    ],
)
def test_a_mistake_in_these_settings_is_reported(text: str, words: str) -> None:
    found = parse_config(text)
    assert isinstance(found, ConfigProblem)
    assert words in found.message


async def test_the_organisations_settings_stand_for_what_the_repository_leaves_out(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    hub.add_repo("acme/.github", {".github/capuchin.yml": "samples: 7\nminutes: 2\n"})
    await manual_bot.publish(**{".capuchin.yml": b"minutes: 5\n"})
    options = manual_bot.runner.jobs[0].options
    assert (options.samples, options.minutes) == (7, 5)


async def test_an_organisation_can_switch_us_off(manual_bot: BotHarness, hub: LocalHub) -> None:
    hub.add_repo("acme/.github", {".capuchin.yml": "enabled: false\n"})
    repo, issue = await manual_bot.prepare_issue()
    assert (
        await manual_bot.work_on(await manual_bot.lease(repo, issue))
    ).status is RunStatus.REFUSED


async def test_a_mistake_of_the_organisation_is_reported_with_its_file(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    hub.add_repo("acme/.github", {".github/capuchin.yml": "version: 1\nsampels: 7\n"})
    _, issue, run = await manual_bot.publish()
    assert run.failure is Failure.CONFIG_INVALID
    assert "acme/.github: .github/capuchin.yml`, line 2" in issue.comments[0].body


async def test_a_defaults_repository_that_we_are_not_installed_on_is_passed_over(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    hub.add_repo("acme/.github", {".capuchin.yml": "enabled: false\n"}, installed=False)
    _, _, run = await manual_bot.publish()
    assert run.status is RunStatus.OPENED_PULL_REQUEST


async def test_reading_the_defaults_needs_no_right_to_write(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    defaults = hub.add_repo("acme/.github", {"README.md": "x"})
    await manual_bot.publish()
    tokens = hub.tokens._tokens.values()  # pyright: ignore[reportPrivateUsage] - what was given out
    rights = [token.permissions for token in tokens if token.repos == (defaults,)]
    assert rights == [{"metadata": "read", "contents": "read"}]


async def test_the_run_of_a_defaults_repository_reads_its_files_once(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    repo = hub.add_repo("acme/.github", {".capuchin.yml": "samples: 3\n", "a.py": "x = 1\n"})
    hub.add_user("alice")
    repo.grant("alice", "write")
    issue = await hub.open_issue(repo, "x", author="bob", labels=["capuchin"])
    await manual_bot.work_on(await manual_bot.lease(repo, issue))
    read = [e.path for e in hub.requests if "/contents/" in e.path]
    assert [path.rpartition("/")[2] for path in read] == ["capuchin.yml", ".capuchin.yml"]
