"""What a search for the lines to change gains (SWE-Reasoner, Table 2 and Figure 8).

Imports finished runs, and the scores of reports.
Start at `localisation.py`, then `strategies.py`.
"""
