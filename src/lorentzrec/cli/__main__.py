"""`python -m lorentzrec.cli`, for where the `lorentzrec` script is not on the path."""

from lorentzrec.cli import main

main()
