"""What became of our pull requests, and what that says about the confidence.

Start at `recalibration.py`.
"""
