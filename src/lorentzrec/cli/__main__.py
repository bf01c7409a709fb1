"""`python -m lorentzrec.cli`, where the `lorentzrec` script is not on the path."""

from lorentzrec.cli import main

main()
