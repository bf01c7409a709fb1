"""The command line: `lorentzrec COMMAND`, or `python -m lorentzrec.cli`. Commands are thin covers over the library."""

from lorentzrec.cli.application import app as app
from lorentzrec.cli.application import main as main
