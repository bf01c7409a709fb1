"""The version, in a module of its own: importing it from the package itself would be circular."""

__version__ = "1.0.0"
