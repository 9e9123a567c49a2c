"""The state as GitHub's JSON documents, complete enough for GitHub's OpenAPI schemas.

Every function takes the hub's address first, because documents are full of links.
"""
