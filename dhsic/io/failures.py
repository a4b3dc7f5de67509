"""Answers of object stores that did not give an object, whichever library asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from dhsic.errors import DataError
from dhsic.io.urls import credentials_of, redacted

FailureKind = Literal["absent", "no bucket", "refused", "passing", "lasting"]

_LENGTH = 200
_PASSING_STATUS = {408, 425, 429, 500, 502, 503, 504}
_STATUS = re.compile(r"(?:status code|HTTP error|status)[:=]? ?(\d{3})\b")
_ELEMENT = re.compile(r"<(Code|Message)>([^<]*)</\1>")
_NO_BUCKET = re.compile(
    r"NoSuchBucket|ContainerNotFound|(?:bucket|container) does not exist", re.IGNORECASE
)
_REFUSED = re.compile(
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|"
    r"NoCredentials|locate credentials|not have (?:enough )?permission|InstanceMetadata|"
    r"DefaultCredentials|AuthenticationFailed",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"SlowDown|ServiceUnavailable|InternalError|RequestTimeout|Throttl|\btimed? ?out\b|"
    r"error sending request|response body error|error decoding response body|disconnected",
    re.IGNORECASE,
)
_DEBUG = "\n\nDebug source:"
_CAUSE = re.compile(r'message: "([^"]+)"')
_PASSING_TYPES = {
    "ClientConnectionError",
    "ClientPayloadError",
    "ConnectionError",
    "HTTPClientError",
    "IncompleteRead",
    "ServiceRequestError",
    "ServiceResponseError",
    "TimeoutError",
}


class StorageError(DataError):
    """A store does not give an object, for a reason that it stated."""


class RefusedError(StorageError):
    """A store knows the user, or does not, and gives nothing."""


class Failure(NamedTuple):
    """Description of a failure, and its kind."""

    kind: FailureKind
    """Whether the object is not there, or asking again may help, or not."""
    said: str
    """The answer of the store, in a line without credentials."""


def failure_of(error: BaseException) -> Failure:
    """Classify an error of a library that reads an object store."""
    chain = list(_causes_of(error))
    status = next(filter(None, map(_status, chain)), None)
    return Failure(_kind_of_failure(chain, status), _failure_text(chain, status))


def remedy_of(failure: Failure, url: str) -> str:
    """Remedy for a failure of the store of a URL."""
    if failure.kind == "lasting" and "region" in failure.said:
        return "set AWS_REGION to the region of the bucket"
    remedies = {
        "passing": "run again when the store answers",
        "refused": credentials_of(url),
        "no bucket": "check the name of the bucket",
    }
    return remedies.get(failure.kind, "check the URL and the settings of the store")


def _kind_of_failure(chain: list[BaseException], status: int | None) -> FailureKind:
    text = " ".join(f"{type(error).__name__}: {_error_text(error)}" for error in chain)
    # The first sign decides: a bucket that is not there answers 404, as an absent object does.
    if _NO_BUCKET.search(text):
        return "no bucket"
    # Only after the bucket is known to be there.
    if status == 404 or any(isinstance(error, FileNotFoundError) for error in chain):
        return "absent"
    refused = status in (401, 403) or any(isinstance(error, PermissionError) for error in chain)
    if refused or _REFUSED.search(text):
        return "refused"
    # By name, since the libraries that raise them are perhaps not there.
    names = {base.__name__ for error in chain for base in type(error).__mro__}
    if names & _PASSING_TYPES:
        return "passing"
    if status is not None:
        return "passing" if status in _PASSING_STATUS else "lasting"
    return "passing" if _PASSING.search(text) else "lasting"


def _causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it."""
    seen: set[int] = set()
    # A chain of causes may come back to itself.
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    """The HTTP status behind an error, where it has one."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):
        return _status_number(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    for name in ("status", "status_code", "code"):
        if (number := _status_number(getattr(error, name, None))) is not None:
            return number
    match = _STATUS.search(_error_text(error))
    return int(match[1]) if match else None


def _status_number(value: Any) -> int | None:
    return value if isinstance(value, int) and 400 <= value < 600 else None


def _error_text(error: BaseException) -> str:
    """The text of an error; obstore's ends with all that it knows, of its own settings too."""
    return str(error).partition(_DEBUG)[0]


def _failure_text(chain: list[BaseException], status: int | None) -> str:
    """Status, code and message where there are such, else the first words of the error."""
    for error in chain:
        response: Any = getattr(error, "response", None)
        if isinstance(response, dict):
            stated = response.get("Error", {})
            return _short_failure(status, stated.get("Code"), stated.get("Message"))
        elements = dict(_ELEMENT.findall(_error_text(error)))
        if elements:
            return _short_failure(status, elements.get("Code"), elements.get("Message"))
    first = chain[0]
    text = _error_text(first).rpartition(" - ")[2].strip().partition("\n")[0]
    causes = _CAUSE.findall(str(first).partition(_DEBUG)[2])
    return _short_failure(status, type(first).__name__, ": ".join([text, *causes[-1:]]))


def _short_failure(status: int | None, code: Any, message: Any) -> str:
    head = " ".join(str(part) for part in (status, code) if part and str(status) != part)
    text = " ".join(f"{head}: {message}".split()) if message else head
    text = redacted(text).rstrip(".:")
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."
