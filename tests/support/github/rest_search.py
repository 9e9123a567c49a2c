"""Search for repositories, with its own limit.

https://docs.github.com/rest/search/search#search-repositories
"""

import re
from typing import Any

from capuchin_demo.hub import repository_json
from capuchin_demo.hub.github_errors import Refusal
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.state import Repo
from tests.support.github.hub_state import GitHubState, Popularity, hub_of

MOST = 1000
"""Results of a search that can be had."""


def show_popular(hub: GitHubState, repo: Repo) -> dict[str, Any]:
    """`repository`, with its stars, language and licence."""
    known = hub.popularity.get(repo.id, Popularity())
    licence = {"key": known.licence.lower(), "name": known.licence, "spdx_id": known.licence}
    counts = dict.fromkeys(("stargazers_count", "watchers", "watchers_count"), known.stars)
    return {
        **repository_json.repository(repo),
        **counts,
        "language": known.language,
        "license": {**licence, "url": None, "node_id": "L"} if known.licence else None,
    }


async def search_repositories(call: RestCall) -> RestResponse:
    hub = hub_of(call)
    if call.token is None and hub.private_mode:
        raise Refusal(401, "Requires authentication")
    try:
        hub.search_limit.spend()
        shown = _search(hub, call)
    except Refusal as refusal:
        headers = {**hub.search_limit.headers(), **refusal.headers}
        raise Refusal(refusal.status, str(refusal.body()["message"]), headers=headers) from None
    page = paginate(call, shown[:MOST], wrap="items")
    body = {**page.body, "total_count": len(shown), "incomplete_results": False}
    return RestResponse(200, body, {**page.headers, **hub.search_limit.headers()})


def _search(hub: GitHubState, call: RestCall) -> list[dict[str, Any]]:
    query = call.query.get("q", "")
    if not query.strip():
        raise Refusal(422, "Validation Failed")
    size, page = int(call.query.get("per_page", 30)), int(call.query.get("page", 1))
    if (page - 1) * size >= MOST:
        raise Refusal(422, "Only the first 1000 search results are available")
    found = [show_popular(hub, repo) for repo in hub.repos.values() if not repo.private]
    for name, value in re.findall(r'(\w+):("[^"]*"|\S+)', query):
        found = [one for one in found if _fits(one, name, value.strip('"'))]
    if call.query.get("sort") == "stars":
        ascending = call.query.get("order") == "asc"
        found.sort(key=lambda one: one["stargazers_count"], reverse=not ascending)
    return [{**one, "score": 1.0} for one in found]


def _fits(repo: dict[str, Any], qualifier: str, value: str) -> bool:
    match qualifier:
        case "language":
            return str(repo["language"]).lower() == value.lower()
        case "license":
            return repo["license"] is not None and repo["license"]["key"] == value.lower()
        case "stars":
            least, dots, most = value.partition("..")
            assert dots, f"the tests' GitHub reads no stars:{value}"
            stars = repo["stargazers_count"]
            return (least == "*" or stars >= int(least)) and (most == "*" or stars <= int(most))
        case _:
            raise Refusal(422, "Validation Failed")


OPERATIONS = (operation("GET", "/search/repositories", search_repositories, "open"),)
