"""Every sentence that the bot writes on GitHub.

Pure functions from values to Markdown; no network, no storage.
Start at `status.py`.
"""
