"""The client for GitHub, and the only importer of githubkit.

Start at `app.py` (`GitHubApp`), then `repository.py`; `errors.py` draws the exceptions.
githubkit sends requests and recognises rate limits (`http.py`). Its typed webhooks are not used:
they reject a third of GitHub's own examples and take 82 MB, so `bot.webhooks`
reads the few fields.
"""
