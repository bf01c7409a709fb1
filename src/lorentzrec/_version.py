"""The version, in a module of its own: importing the package's root from inside would reach every other module."""

__version__ = "0.1.0"
