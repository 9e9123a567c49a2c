"""Apps, accounts, repositories: what the demo does not need."""

import secrets

from capuchin_demo.hub import repository_json, rest_repositories
from capuchin_demo.hub.github_errors import not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation
from capuchin_demo.hub.rest_repositories import REPO
from tests.support.github import rest_search
from tests.support.github.access import refuse_unavailable
from tests.support.github.hub_state import hub_of


async def show_repo_installation(call: RestCall) -> RestResponse:
    state = hub_of(call)
    name = f"{call.parts['of']}/{call.parts['name']}"
    repo = state.find_repo(name) or state.find_moved(name)  # GitHub redirects here, too
    if repo is None or repo.installation is None:
        raise not_found()
    return RestResponse(200, repository_json.installation(state.app, repo.installation))


async def convert_manifest(call: RestCall) -> RestResponse:
    """Exchange the code of a new App for its keys, once."""
    made = hub_of(call).new_apps.pop(call.parts["code"], None)
    if made is None:
        raise not_found()
    identity, secret = made
    return RestResponse(
        201,
        {
            **repository_json.app(identity, call.state.bot),
            "client_secret": secrets.token_hex(20),
            "webhook_secret": secret or None,
            "pem": identity.private_key_pem,
        },
    )


async def show_repository(call: RestCall) -> RestResponse:
    shape = rest_search.show_popular(hub_of(call), call.repo)
    return RestResponse(200, {**shape, "network_count": 0, "subscribers_count": 0})


async def create_token(call: RestCall) -> RestResponse:
    if one := call.state.installations.get(call.number("id")):
        refuse_unavailable(hub_of(call), one)
    return await rest_repositories.create_token(call)


async def list_branch_rules(call: RestCall) -> RestResponse:
    checks = [{"context": name} for name in hub_of(call).rules[call.repo.id].required_checks]
    wanted = {"required_status_checks": checks, "strict_required_status_checks_policy": False}
    rule = {"type": "required_status_checks", "parameters": wanted}
    return RestResponse(200, [rule, {"type": "deletion"}] if checks else [])


OPERATIONS = (
    operation("GET", REPO + "/rules/branches/{branch...}", list_branch_rules, "metadata:read"),
    operation("GET", REPO, show_repository, "metadata:read"),
    operation("POST", "/app-manifests/{code}/conversions", convert_manifest, "open"),
    operation("POST", "/app/installations/{id}/access_tokens", create_token, "app"),
    operation("GET", "/repos/{of}/{name}/installation", show_repo_installation, "app"),
)
