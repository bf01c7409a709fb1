"""One contract for every store."""
