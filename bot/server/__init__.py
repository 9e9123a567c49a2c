"""What `capuchin serve` answers: the webhook, pages, metrics and the schema. Start at `app.py`."""
