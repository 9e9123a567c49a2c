"""`capuchin learn`: one module for each of its actions. Start at `command.py`."""
