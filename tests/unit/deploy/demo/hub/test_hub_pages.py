"""The hub's pages are complete, and safe with untrusted text."""

import re

import httpx
import pytest

from capuchin_demo.hub import check_actions as checks
from capuchin_demo.hub import issue_actions as comments
from capuchin_demo.hub import pull_actions as pulls
from capuchin_demo.hub.hub_pages import render_markdown
from capuchin_demo.hub.state import Pull, Repo, Visitor
from tests.support.github.hub import LocalHub
from tests.support.texts import texts_of

ROWS = texts_of(__file__)

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


async def page(hub: LocalHub, path: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False) as http:
        return await http.get(hub.url + path)


async def fixed(hub: LocalHub, repo: Repo, title: str = "Fix total()") -> Pull:
    await hub.commit(repo, "fix", {"shop.py": "a = '<b>'\n"}, "Fix <i>", "alice")
    asked = pulls.NewPull(title, "Fixes #1", "fix", "main", draft=True)
    return await pulls.open_pull(hub, repo, asked, hub.bot)


async def test_the_front_page_lists_repositories(hub: LocalHub, repo: Repo) -> None:
    assert 'href="/acme/shop"' in (await page(hub, "/")).text


async def test_a_repositorys_page_lists_issues_and_pull_requests(hub: LocalHub, repo: Repo) -> None:
    await hub.open_issue(repo, "total() subtracts", None, "bob", labels=["capuchin"])
    pull = await fixed(hub, repo)
    text = (await page(hub, "/acme/shop")).text
    assert 'href="/acme/shop/issues/1">total() subtracts' in text
    assert f'href="/acme/shop/pull/{pull.number}">Fix total()' in text
    assert "capuchin</span>" in text


async def test_an_issues_page_shows_the_discussion(hub: LocalHub, repo: Repo) -> None:
    issue = await hub.open_issue(repo, "total() subtracts", "It **fails**", "bob")
    await hub.add_label(issue, "capuchin", "alice")
    comment = await hub.comment(issue, "<!-- marker -->\nworking on it", "alice")
    comments.react(hub, comment.reactions, "rocket", hub.bot)
    text = (await page(hub, "/acme/shop/issues/1")).text
    for shown in ("<strong>fails</strong>", "added the label capuchin", "working on it", "🚀"):
        assert shown in text
    assert "marker" not in text


async def test_a_pull_requests_page_shows_commits_diff_and_checks(
    hub: LocalHub, repo: Repo
) -> None:
    pull = await fixed(hub, repo)
    output = {"title": "2 tests", "summary": "all **good**", "text": "the log"}
    asked = {"name": "evidence", "conclusion": "success", "output": output}
    checks.create(hub, repo, pull.head_sha, asked, hub.bot)
    text = (await page(hub, f"/acme/shop/pull/{pull.number}")).text
    for shown in (
        '<span class="state draft">draft</span>',
        '<span class="add">+a = &#39;&lt;b&gt;&#39;</span>',
        '<span class="del">-def total(a, b):</span>',
        "Fix &lt;i&gt;",
        '<span class="good">success</span> 2 tests',
        "<strong>good</strong>",
        "the log",
    ):
        assert shown in text


async def test_a_merged_pull_request_and_its_review_are_shown(hub: LocalHub, repo: Repo) -> None:
    pull = await fixed(hub, repo)
    pull.draft = False
    await hub.merge(pull, "alice")
    text = (await page(hub, f"/acme/shop/pull/{pull.number}")).text
    assert '<span class="state merged">merged</span>' in text
    assert '<span class="add">' in text


async def test_the_diff_is_there_as_text(hub: LocalHub, repo: Repo) -> None:
    pull = await fixed(hub, repo)
    answer = await page(hub, f"/acme/shop/pull/{pull.number}.diff")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.startswith("diff --git a/shop.py")


async def test_hostile_text_is_only_text(hub: LocalHub, repo: Repo) -> None:
    issue = await hub.open_issue(repo, HOSTILE, HOSTILE, "bob", labels=["<b>bold</b>"])
    await hub.comment(issue, HOSTILE, "bob")
    pull = await fixed(hub, repo, HOSTILE)
    output = {"title": HOSTILE, "summary": HOSTILE, "text": HOSTILE}
    asked = {"name": HOSTILE, "conclusion": "failure", "output": output}
    checks.create(hub, repo, pull.head_sha, asked, hub.bot)
    await hub.commit(repo, "fix", {"<script>.py": HOSTILE + "\n"}, HOSTILE, "alice")
    for path in ("", "/issues/1", f"/pull/{pull.number}"):
        text = (await page(hub, f"/acme/shop{path}")).text
        assert not re.search(r"<(script|img|b>bold)", text)


async def test_the_policy_lets_nothing_in_but_the_pages_own_style(
    hub: LocalHub, repo: Repo
) -> None:
    answer = await page(hub, "/acme/shop")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    ["/nobody", "/acme/nothing", "/acme/shop/issues/9", "/acme/shop/pull/1", "/acme/shop/x/1",
     "/acme/shop/issues/1.diff", "/acme/shop/issues/99999999999999999999"],
)  # fmt: skip
async def test_what_is_not_there_is_404(hub: LocalHub, repo: Repo, path: str) -> None:
    await hub.open_issue(repo, "t", None, "bob")
    assert (await page(hub, path)).status_code == 404


@pytest.mark.parametrize(
    ("text", "html"),
    ROWS["markdown_becomes_harmless_html"],
)  # fmt: skip
def test_markdown_becomes_harmless_html(text: str, html: str) -> None:
    assert render_markdown(text).strip() == html


async def send(hub: LocalHub, path: str, host: str = "", **values: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False) as http:
        headers = {"host": host} if host else {}
        return await http.post(hub.url + path, data=values, headers=headers)


async def test_a_visitor_comments_unlabels_and_reviews_by_signed_webhooks(
    hub: LocalHub, repo: Repo
) -> None:
    hub.visitor = Visitor("alice", "Please add a test.")
    issue = await hub.open_issue(repo, "total() subtracts", None, "bob", labels=["capuchin"])
    pull = await fixed(hub, repo)
    token, path = hub.visitor.token, "/acme/shop/issues/1"
    text = (await page(hub, path)).text
    for shown in (token, "Remove the label capuchin", "/capuchin help"):
        assert shown in text
    assert "Please add a test." in (await page(hub, f"/acme/shop/pull/{pull.number}")).text

    answer = await send(hub, path, token=token, action="comment", text="/capuchin help")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}?watch=1")
    await send(hub, path, token=token, action="unlabel", text="capuchin")
    review = {"action": "review", "state": "CHANGES_REQUESTED", "text": "Please add a test."}
    await send(hub, f"/acme/shop/pull/{pull.number}", token=token, **review)
    done = [(sent.event, sent.payload["action"]) for sent in hub.deliveries[-3:]]
    assert done == [
        ("issue_comment", "created"),
        ("issues", "unlabeled"),
        ("pull_request_review", "submitted"),
    ]
    assert {sent.payload["sender"]["login"] for sent in hub.deliveries[-3:]} == {"alice"}
    assert (issue.comments[0].body, issue.labels) == ("/capuchin help", [])
    assert pull.reviews[0].state == "CHANGES_REQUESTED"
    watched = (await page(hub, f"{path}?watch=1")).text
    assert '<meta http-equiv="refresh"' in watched
    assert "<textarea" not in watched, "a reload would take what is being written"


async def test_no_other_website_acts_as_the_visitor(hub: LocalHub, repo: Repo) -> None:
    issue = await hub.open_issue(repo, "t", None, "bob")
    path, comment = "/acme/shop/issues/1", {"action": "comment", "text": "/capuchin fix"}
    assert (await send(hub, path, token="", **comment)).status_code == 404, "there is no visitor"
    hub.visitor = Visitor("alice")
    token = hub.visitor.token
    assert (await send(hub, path, token="guess", **comment)).status_code == 403
    assert (await send(hub, path, host="evil.example", token=token, **comment)).status_code == 403
    assert (await send(hub, path, token=token, action="explode")).status_code == 422
    assert (await send(hub, path, token=token, action="comment", text=" ")).status_code == 422
    long = {"action": "comment", "text": "x" * 600_000}
    assert (await send(hub, path, token=token, **long)).status_code == 413
    assert issue.comments == []


async def test_references_are_links_where_they_lead_somewhere(hub: LocalHub, repo: Repo) -> None:
    await hub.open_issue(repo, "t", "see #2, #9, a#2, `#2` and [#2](/x)", "bob")
    await hub.open_issue(repo, "u", None, "bob")
    text = (await page(hub, "/acme/shop/issues/1")).text
    link = '<a href="/acme/shop/issues/2" rel="noopener noreferrer nofollow">#2</a>'
    assert text.count(link) == 1
    assert f"see {link}, #9, a#2, <code>#2</code>" in text
