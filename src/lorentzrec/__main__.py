"""`python -m lorentzrec`: the command line."""

from lorentzrec.cli import main

main()
