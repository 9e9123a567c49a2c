"""The repository's settings file: model, YAML with positions, layers, loading.

Imports `bot.github` to read the file, and the data at the bottom of `bot`.
Start at `model.py`.
"""
