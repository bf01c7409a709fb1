"""Figures of the reproduction; each function draws to the path it is given."""
