"""Stores of versions, histories and live items: one interface, three stores."""
