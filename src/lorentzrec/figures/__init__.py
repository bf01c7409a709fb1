"""Pictures for paper and screen; everything here needs the `plots` extra."""
