"""The REST door under `/api/v3`. `door.py` lets calls in, `table.py` lists the operations."""
