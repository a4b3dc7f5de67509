"""What object stores say, whichever library asked."""

import errno

import pytest
from aiohttp import ClientConnectionError, ClientPayloadError, ServerDisconnectedError
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from dhsic.io.failures import failure_of


class Coded(Exception):
    """As gcsfs, adlfs and aiohttp do it: the status is an attribute."""

    def __init__(self, name, value, text="it said so"):
        super().__init__(text)
        setattr(self, name, value)


def of_boto(status, code, message="it said so"):
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    error = OSError(errno.EIO, message)
    error.__cause__ = ClientError(response, "GetObject")
    return error


def of_obstore(status, code="", kind=GenericError):
    body = f"<Error><Code>{code}</Code><Message>it said so</Message><Key>AKIA</Key></Error>"
    return kind(
        "Generic S3 error: Error performing GET http://host/x in 1ms, after 5 retries, "
        f"retry_timeout: 60s  - Server returned non-2xx status code: {status} Name: {body}"
        '\n\nDebug source:\nGeneric {\n  retry_timeout: 60s, message: "odd" }'
    )


def lost(text, cause):
    return GenericError(f'Generic S3 error: {text}\n\nDebug source:\nOs {{ message: "{cause}" }}')


KINDS = [
    (FileNotFoundError("no key"), "absent"),
    (of_boto(404, "NoSuchKey"), "absent"),
    (of_obstore(404, "NoSuchKey", FileNotFoundError), "absent"),
    (Coded("status", 404), "absent"),
    (of_boto(404, "NoSuchBucket"), "no bucket"),
    (of_obstore(404, "NoSuchBucket", FileNotFoundError), "no bucket"),
    (FileNotFoundError("The specified bucket does not exist."), "no bucket"),
    (Coded("status_code", 404, "ErrorCode:ContainerNotFound"), "no bucket"),
    (PermissionError("Forbidden"), "refused"),
    (of_boto(403, "AccessDenied"), "refused"),
    (of_boto(400, "ExpiredToken"), "refused"),
    (of_obstore(403, "AccessDenied", PermissionDeniedError), "refused"),
    (UnauthenticatedError("NoCredentialsError: Unable to locate credentials"), "refused"),
    (NoCredentialsError(), "refused"),
    (Coded("code", 401), "refused"),
    (of_boto(503, "SlowDown"), "passing"),
    (of_boto(500, "InternalError"), "passing"),
    (of_obstore(503, "SlowDown"), "passing"),
    (Coded("status", 503), "passing"),
    (Coded("code", 429), "passing"),
    (Coded("status_code", 504), "passing"),
    (lost("HTTP error: error sending request", "Connection refused"), "passing"),
    (lost("HTTP error: request or response body error", ""), "passing"),
    (EndpointConnectionError(endpoint_url="http://host"), "passing"),
    (ReadTimeoutError(endpoint_url="http://host"), "passing"),
    (ClientPayloadError("not completed: 400, message: not enough data"), "passing"),
    (ServerDisconnectedError(), "passing"),
    (ClientConnectionError(), "passing"),
    (TimeoutError(), "passing"),
    (ConnectionResetError(), "passing"),
    (of_boto(400, "InvalidRequest"), "lasting"),
    (of_obstore(400, "InvalidRequest"), "lasting"),
    (GenericError("... retry_timeout: 60s  - Received redirect without LOCATION"), "lasting"),
    (NotImplementedError("no listing"), "lasting"),
    (ValueError("odd"), "lasting"),
]


@pytest.mark.parametrize(("error", "kind"), KINDS, ids=lambda value: repr(value)[:60])
def test_failure_of__knows_the_kind(error, kind):
    assert failure_of(error).kind == kind


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (of_boto(503, "SlowDown", "Slow."), "503 SlowDown: Slow"),
        (of_obstore(503, "SlowDown"), "503 SlowDown: it said so"),
        (of_boto(404, "404", "Not Found"), "404: Not Found"),
        (lost("HTTP error: error sending request", "refused"), "error sending request: refused"),
        (ValueError("two\nlines"), "ValueError: two"),
        (TimeoutError(), "TimeoutError"),
        (
            Coded("status", 503, "url=https://host/x?sig=secret"),
            "503 Coded: url=https://host/x?***",
        ),
        (OSError("see https://me:secret@host/x"), "OSError: see https://***@host/x"),
        (ValueError("long " * 100), "..."),
    ],
    ids=range(9),
)
def test_failure_of__says_it_in_a_line_without_secrets(error, said):
    text = failure_of(error).said
    assert text.endswith(said)
    assert len(text) <= 210
    assert "\n" not in text
    assert not [secret for secret in ("AKIA", "secret") if secret in text]


def test_failure_of__ends_where_causes_go_in_circles():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert failure_of(first).kind == "lasting"
