"""Trains and scores by TRL and PEFT, in an interpreter of its own; nothing else imports it.

It imports the standard library and, inside functions that need them, torch and its friends.
`pipeline.lab.learning.interpreter` starts it.
"""
