"""The tests' GitHub: the demo's, with all that only tests ask of it.

`hub.LocalHub` extends the demo's state, `serve_hub.create_app` its application.
"""
