"""What a run from the command line leaves: `report.json`, `report.md` and the edits as files.

Start at `document.py`.
"""
