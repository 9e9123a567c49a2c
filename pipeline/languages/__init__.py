"""What a language needs to be installed, run and tested: each in a folder, behind `Language`.

Start at `language.py`; common code finds languages through `registry.py`.
"""
