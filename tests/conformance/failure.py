"""What the files of this folder share: how a case fails, and how long it waits before it does."""

# How long a thing that should happen at once may take on a busy machine before it counts as hung.
PATIENCE = 30.0


class Failure(Exception):
    """The case failed; the text says how."""
