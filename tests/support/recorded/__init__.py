"""A model service that answers from a recording, with Anthropic's and OpenAI's protocols.

For the demo and the tests. Start at `recording.py` (the file), then `server.py`.
"""
