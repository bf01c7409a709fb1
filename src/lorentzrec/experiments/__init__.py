"""Comparing systems and tuning them: what `lorentzrec tune` and `lorentzrec compare` run."""
