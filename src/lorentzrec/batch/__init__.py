"""Recommendations for all customers of a model, many at a time."""
