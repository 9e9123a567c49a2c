"""The state machines that write tests to distinguish finalists, and choose (CodeMonkeys, section
4.2).

Import models, prompts and voting.
Start at `discriminate.py`.
"""
