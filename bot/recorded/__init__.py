"""A model service that answers from a recording: Anthropic's and OpenAI's wire protocols, one file.

For the demo and the tests. Start at `recording.py` (the file), then `server.py`.
"""
