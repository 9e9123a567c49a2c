"""`capuchin demo`: a real bug of a real package, fixed from the signed webhook to the pull request."""
