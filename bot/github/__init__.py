"""GitHub in our words: the only place that imports githubkit.

Start at `app.py` (`GitHubApp`), then `repository.py`. Errors are drawn at the top of `errors.py`.
"""
