"""Model clients by provider behind one Protocol (`base.py`); metering and prices beside them."""
