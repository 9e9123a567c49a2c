"""State as GitHub's JSON documents, complete enough for GitHub's own OpenAPI schemas.

Every function takes the hub's address first: documents are full of links.
"""
