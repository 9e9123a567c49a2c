"""Steps between stages: sampling, reproduction, revision. Start at `sampling.py`."""
