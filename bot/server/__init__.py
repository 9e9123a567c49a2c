"""What `capuchin serve` shows to people and machines beside the webhook: `doors.py` lists it."""
