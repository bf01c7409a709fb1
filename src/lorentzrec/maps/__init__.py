"""From many dimensions to the two of the disk."""
