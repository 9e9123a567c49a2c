"""Runs the pipeline for a job, with models and a sandbox that it builds from the settings.

Imports the pipeline, the sandbox and `bot.storage`; knows no GitHub.
Start at `runner.py`.
"""
