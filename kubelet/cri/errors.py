"""What a call to the runtime can end in, as types. Free of gRPC, for those who only catch them."""

from __future__ import annotations

import enum
from typing import Final

# What a runtime may put in front of its words to say what kind of failure it is.
MEANINGFUL_PREFIXES: Final = (
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "ImageVolumeMountFailed",
    "RROUnsupported",
)


class Code(enum.Enum):
    """The status codes of gRPC, by number; ``label`` is how Go spells them."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @property
    def label(self) -> str:
        """The code as a Go program prints it, which is what people search for."""
        if self is Code.CANCELLED:
            return "Canceled"
        return "".join(word.capitalize() for word in self.name.split("_"))


class EndpointError(ValueError):
    """The address of a runtime is not one that can be called."""


class CriError(Exception):
    """A call to the runtime failed.

    ``message`` is what the runtime said, or what happened when it said nothing; the text of the
    exception also names the call, and what the call was about.
    """

    def __init__(self, code: Code, message: str, call: str, about: str = "") -> None:
        self.code = code
        self.message = message
        self.call = call
        self.about = about
        super().__init__(code, message, call, about)

    def __str__(self) -> str:
        subject = f"{self.call} {self.about}" if self.about else self.call
        return f"{subject}: {self._sentence()}"

    def _sentence(self) -> str:
        return f"{self.code.label}: {self.message}" if self.message else self.code.label

    @property
    def prefix(self) -> str | None:
        """The prefix with a meaning that the runtime's words begin with, if any (R-10)."""
        return next((word for word in MEANINGFUL_PREFIXES if self.message.startswith(word)), None)

    @property
    def rest(self) -> str:
        """What the runtime said after such a prefix; all of it where there is none."""
        return self.message.removeprefix(self.prefix or "").lstrip(": ") or self.message

    @property
    def go_text(self) -> str:
        """The error as it stands in pod statuses and events of a Go kubelet."""
        return f"rpc error: code = {self.code.label} desc = {self.message}"


class NotFound(CriError):  # noqa: N818 - the name says what is wrong
    """The runtime does not know the sandbox, container or image."""


class Unavailable(CriError):  # noqa: N818 - as above
    """The runtime says that it cannot serve now."""


class Unreachable(Unavailable):
    """There is no runtime to speak to; ``message`` says where it was sought and what was found."""

    def _sentence(self) -> str:
        return self.message


class TimedOut(CriError, TimeoutError):  # noqa: N818 - as above
    """No answer in time, or the runtime says that its own time ran out."""

    def __init__(
        self, code: Code, message: str, call: str, about: str = "", *, no_answer: bool = False
    ) -> None:
        super().__init__(code, message, call, about)
        self.no_answer = no_answer  # the runtime said nothing at all

    def _sentence(self) -> str:
        return self.message if self.no_answer else super()._sentence()


class Unimplemented(CriError):  # noqa: N818 - as above
    """The runtime does not have this call."""


class ResourceExhausted(CriError):  # noqa: N818 - as above
    """Something ran out; a message of more than 16 MiB ends so, too."""


class InvalidArgument(CriError):  # noqa: N818 - as above
    """The runtime does not accept the request as it is."""


class AlreadyExists(CriError):  # noqa: N818 - as above
    """There is one of that name already."""


class PermissionDenied(CriError):  # noqa: N818 - as above
    """The runtime may not, or will not, do this for us."""


class FailedPrecondition(CriError):  # noqa: N818 - as above
    """The state of the sandbox or container does not allow it."""


class Cancelled(CriError):  # noqa: N818 - as above
    """The call was given up: by the runtime, or because the client was closed."""


class Internal(CriError):  # noqa: N818 - as above
    """The runtime has a fault."""


class BadReply(Internal):
    """The runtime answered, and the answer makes no sense."""

    def __init__(self, message: str, call: str, about: str = "") -> None:
        super().__init__(Code.INTERNAL, message, call, about)

    def _sentence(self) -> str:
        return f"the runtime's answer makes no sense: {self.message}"


class VersionNotSupported(CriError):  # noqa: N818 - as above
    """The runtime does not speak runtime.v1."""

    def _sentence(self) -> str:
        return self.message


_BY_CODE: Final[dict[Code, type[CriError]]] = {
    Code.CANCELLED: Cancelled,
    Code.INVALID_ARGUMENT: InvalidArgument,
    Code.DEADLINE_EXCEEDED: TimedOut,
    Code.NOT_FOUND: NotFound,
    Code.ALREADY_EXISTS: AlreadyExists,
    Code.PERMISSION_DENIED: PermissionDenied,
    Code.RESOURCE_EXHAUSTED: ResourceExhausted,
    Code.FAILED_PRECONDITION: FailedPrecondition,
    Code.UNIMPLEMENTED: Unimplemented,
    Code.INTERNAL: Internal,
    Code.UNAVAILABLE: Unavailable,
}


def from_code(number: int, message: str, call: str, about: str = "") -> CriError:
    """Build the exception for a status; a number that gRPC does not know is an unknown error."""
    try:
        code = Code(number)
    except ValueError:
        code = Code.UNKNOWN
        message = f"status {number}: {message}"
    return _BY_CODE.get(code, CriError)(code, message, call, about)
