"""For all tests: a slow machine is not a failing property, and Ctrl-C works in whatever way the tests were started."""

import signal

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# A job in the background of a script ignores SIGINT, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
