"""`capuchin demo`: a real bug of a real package, fixed on a GitHub of the demo's own."""
