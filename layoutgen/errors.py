"""The one root of every error that layoutgen raises on purpose."""


class LayoutgenError(Exception):
    """A request or an input that cannot be honoured.

    The message is one line that names the operation, the operands and the broken rule, and where one
    exists the nearest request that would work. The command line prints it and exits with status 2.
    """


class RefutedError(LayoutgenError):
    """A claim that had to hold was refuted; the message carries the witness. Exit status 1."""


class CompilationError(LayoutgenError):
    """Triton or ptxas rejected a kernel; the message carries what they said. Exit status 1."""
