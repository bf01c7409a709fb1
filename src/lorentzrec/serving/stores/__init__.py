"""Where versions and histories are kept: one interface, three stores."""
