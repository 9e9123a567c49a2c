"""Runs the pipeline for a job: builds models and sandbox from the settings.

Imports the pipeline, the sandbox and `bot.storage`; knows no GitHub.
Start at `runner.py`.
"""
