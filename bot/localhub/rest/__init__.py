"""The REST API under `/api/v3`. `router.py` handles requests, `table.py` lists the operations."""
