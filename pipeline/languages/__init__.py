"""What a language needs to be installed, built and tested. Start at `detect.py`."""
