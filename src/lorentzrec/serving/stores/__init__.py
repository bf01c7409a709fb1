"""Stores of versions, histories, live items and new items: one interface, three stores."""
