"""`capuchin setup`: registers a GitHub App from `app.yml` in the browser, and saves its keys.

https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""
