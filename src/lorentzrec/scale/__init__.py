"""The same jobs on many machines."""
