"""Every error a user can cause or meet. Each message is one line that names the thing at fault and ends with the next
action. Options are named in backticks as in Python (`user_column`, `separator=';'`); the command line prints them as
its own (`--user-column`, `--separator ';'`)."""


class LorentzrecError(Exception):
    """Base of all errors raised on purpose; the command line prints its message as one line and exits with
    `exit_code`."""

    exit_code = 1


class InputError(LorentzrecError):
    """Data, a file or an argument that cannot be used as it is."""

    exit_code = 2


class ConfigError(InputError):
    """A hyper-parameter or option with an unknown name or an impossible value."""


class ArtifactError(InputError):
    """A saved model or dataset that is damaged, incomplete, or of another version."""


class TrainingError(LorentzrecError):
    """Training met a number that is not finite; the message names the epoch and the row."""


class StoreUnavailable(LorentzrecError):  # noqa: N818 - the name says what it is
    """A store that cannot answer now: network, time-out, server gone. Nothing is wrong with the question: ask again."""


class StoreBroken(ArtifactError):  # noqa: N818 - the name says what it is
    """A store that answers nobody until it is mended: a wrong key, missing rights or tables, a damaged file."""


def how_to_get(extra: str) -> str:
    """The next action where an optional part is missing; it is on no package index, so it comes from a checkout."""
    return f"pip install '.[{extra}]' in a checkout of lorentzrec"
