"""The hub sends what the API version has that is asked for."""

from pathlib import Path

import httpx

from capuchin_demo.hub.tokens import AppIdentity
from tests.contracts.github.hub_api import create_token
from tests.support.github.hub import LocalHub


async def test_a_newer_version_has_no_merge_commit_and_an_unknown_one_is_refused(
    tmp_path: Path, app_identity: AppIdentity
) -> None:
    """On a hub of its own: the contract of the others is of one version."""
    hub = LocalHub(tmp_path / "hub", "secret", app_identity)
    async with hub.serve() as url, httpx.AsyncClient(trust_env=False) as http:
        repo = hub.add_repo("acme/shop", {"a.py": "0\n"})
        await hub.commit(repo, "fix", {"a.py": "1\n"}, "Add", "alice")
        bearer = {"authorization": f"Bearer {create_token(hub, repo)}"}
        where = f"{url}/api/v3/repos/acme/shop/pulls"
        asked = {"title": "Fix", "head": "fix", "base": "main"}
        assert (await http.post(where, json=asked, headers=bearer)).status_code == 201
        await hub.merge(repo.pulls[0], "alice")

        async def read(path: str, version: str) -> httpx.Response:
            headers = {**bearer, "x-github-api-version": version}
            return await http.get(where + path, headers=headers)

        assert (await read("/1", "2022-11-28")).json()["merge_commit_sha"]
        assert "merge_commit_sha" not in (await read("/1", "2026-03-10")).text
        assert "merge_commit_sha" not in (await read("?state=closed", "2026-03-10")).text
        assert (await read("/1", "2020-01-01")).status_code == 400
