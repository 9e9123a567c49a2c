"""What an environment image is made from: plain data. Start at `recipe.py`."""
