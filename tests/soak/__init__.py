"""Long rounds of faults against the real service: `make soak`. Not part of the tests."""
