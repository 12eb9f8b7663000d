"""What the errors of the object-store client mean: which response of the server each one is, and our error for it, in one line.

Pure. The client raises a few classes and puts the rest in a text. A text may hold addresses with signatures in their queries, and bodies of responses: these
are not shown."""

from __future__ import annotations

import re
import ssl
from errno import EPROTO, ETIMEDOUT
from typing import Final, Literal, TypeAlias

from frazil.errors import FrazilError, InvalidInputError, StoreError

Meaning: TypeAlias = Literal["absent", "changed", "exists", "range", "no suffix", "lost", "failed"]
# absent      no object has this key
# changed     its version is not the expected one
# exists      it exists, and was to be created
# range       the whole range is beyond its end
# no suffix   the server, or its protocol, does not support such ranges
# lost        no response, or one without meaning: it may have been done, and may be tried again
# failed      all else; trying again does not help

_NO_BUCKET: Final = (
    "NoSuchBucket",
    "ContainerNotFound",
    "The specified bucket does not exist",
    "The specified container does not exist",
)
_NO_KEY: Final = {"NoSuchKey", "NoSuchVersion", "NotFound", "BlobNotFound", "ResourceNotFound"}
_CREDENTIAL_CODES: Final = {
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "XAdminUserNotFound",
}  # codes of invalid credentials, whatever the status is
_ARCHIVED: Final = {"InvalidObjectState", "BlobArchived"}
_CLOCK: Final = {"RequestTimeTooSkewed", "RequestExpired"}
_STATUS: Final = re.compile(r"non-2xx status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>\s*([A-Za-z]{1,60})\s*</Code>")
_NO_BLOB: Final = re.compile(r"Bulk delete request failed for key .*: The specified blob does not exist", re.DOTALL)
_FAILED_KEY: Final = re.compile(r"DeleteObjects request failed for key .*\(code: ([A-Za-z]{1,60})\)", re.DOTALL)
_QUERY: Final = re.compile(r"\?[^\s)]*")
_ADDRESS: Final = re.compile(r"://[^@\s]*@")  # a password may have a slash
_BUSY: Final = {"SlowDown", "ServerBusy", "TooManyRequests", "RequestLimitExceeded"}
_TOO_MANY: Final = 429
_REQUEST_TIMEOUT: Final = 408
_NO_RANGE: Final = ("Wanted range starting at", '"bytes 0--1/0"')  # the latter: of Azurite
_NOT_IMPLEMENTED: Final = 501  # the server does not support the request, and never will
# for responses with a successful status; the last is another range than the requested one
_INVALID_RESPONSES: Final = ("Got invalid ", "Unable to extract metadata", "Generic S3 error: Requested ")
_LISTED_INVALID_PATH: Final = "object with invalid path"  # a listed key that the client cannot represent
_NO_PATH: Final = ("Could not parse path", "Expected string path", _LISTED_INVALID_PATH)
_NO_BODY: Final = (
    "Error getting list response body",  # after a status of success
    "request or response body error",  # after any status, as of an absent key
)
_INCOMPLETE_RESPONSES: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, TimeoutError)
_LONGEST: Final = 300  # letters of a message that are shown

_HINTS: Final = {
    "bucket": "check the name of the bucket or container, the region and the endpoint",
    "archived": "it is archived: restore it first, or move it to another storage class",
    "401": "check the credentials: they are missing, or unknown to the server",
    "403": "check the credentials and their permissions; they may have expired",
    "clock": "set the clock of this machine: requests are signed with its time",
    "400": "check the endpoint, the region and the name of the bucket",
    "lost": "check the network, the endpoint and that the server runs",
    "time": "check the network and that the server runs; client_options= has the time-outs (docs/object-stores.md)",
    "never": "this server does not support the request; conditional writes (If-Match, If-None-Match: *) are required",
    "tls": "the endpoint is http:// and not https://, or its certificate is not known",
    "token": "check the credentials: none were given or found, so the metadata service of the cloud was asked; skip_signature=True reads public objects",
    "nonsense": "check that the endpoint is an object store, and not a proxy or a login page",
    "429": "the server gets too many requests: try again later, or with fewer requests at once (requests_in_flight)",
    "path": "no client can request a key with an empty part, a part . or .., or a control character: choose another key, or rename the object",
    "else": "check that the endpoint is an object store that supports this request",
}
_HINT_OF: Final = {400: "400", 404: "nonsense", _TOO_MANY: "429", _NOT_IMPLEMENTED: "never"}


def meaning_of(error: Exception) -> Meaning:
    """What an error of the client means for its one request. Errors of ours, and a lack of memory, are none of the server's: "failed"."""
    if isinstance(error, FrazilError | MemoryError):
        return "failed"
    text, kind = str(error), type(error).__name__
    if any(name in text for name in _NO_BUCKET):
        return "failed"
    if isinstance(error, FileNotFoundError):
        return "absent" if _is_no_key(text) else "failed"
    if kind in {"PreconditionError", "NotModifiedError"}:
        return "changed"
    if kind == "AlreadyExistsError":
        return "exists"
    if kind == "NotSupportedError" or "does not support range" in text or "non-partial response" in text:
        return "no suffix"
    status = _status(text)
    if status == 416 or any(sign in text for sign in _NO_RANGE):
        return "range"
    if status in {_REQUEST_TIMEOUT, _TOO_MANY} or (status >= 500 and status != _NOT_IMPLEMENTED):
        return "lost"
    if status == 409:
        return "exists"
    if status or kind in {"PermissionDeniedError", "UnauthenticatedError"}:
        return "failed"
    return "failed" if _never_sent(text) or _is_no_path(text) else "lost"


def is_of_a_store(error: Exception) -> bool:
    """Whether the response has a code of object stores, which proxies and web servers do not send."""
    return _CODE.search(str(error)) is not None


def is_unreadable(error: Exception) -> bool:
    """Whether the response to a request for a range from the start says that the object exists, and that this range is not sent: it is archived, or the server
    sends whole objects alone."""
    code = _CODE.search(str(error))
    return (code is not None and code[1] in _ARCHIVED) or meaning_of(error) == "no suffix"


def breaks_off(error: Exception) -> bool:
    """Whether the body of a response broke off: the client repeats only requests whose response has not begun."""
    return any(text in str(error) for text in _NO_BODY) and meaning_of(error) == "lost"


def is_too_busy(error: Exception) -> bool:
    """Whether the server states that it did not do the request because it is too busy. For other failures this is unknown."""
    text = str(error)
    code = _CODE.search(text)
    return _status(text) == _TOO_MANY or (code is not None and code[1] in _BUSY)


def failure(error: Exception, message: str, key: str, url: str) -> Exception:
    """The final error of a request, a StoreError; one that is none of the server's (meaning_of) stays as it is.

    message: such as "could not be read"; url: of the store, without secrets."""
    if isinstance(error, FrazilError | MemoryError):
        return error
    text, kind = str(error), type(error).__name__
    status, code = _status(text), _CODE.search(text) or _FAILED_KEY.search(text)
    answer = f"{status} {code[1]}" if status and code else str(status or "") or (code[1] if code else "")
    hint: str | None
    if any(name in text for name in _NO_BUCKET):
        reason, hint = "the bucket or container does not exist", _HINTS["bucket"]
    elif "token" in text.lower() and "request" in text.lower() and ("169.254" in text or "metadata" in text.lower()):
        reason, hint = "no credentials could be obtained", _HINTS["token"]
    elif code and code[1] in _ARCHIVED:
        reason, hint = f"the server does not send it ({answer})", _HINTS["archived"]
    elif code and code[1] in _CLOCK:
        reason, hint = f"the server does not permit it ({answer})", _HINTS["clock"]
    elif code and (code[1] in _CREDENTIAL_CODES or (code[1] == "AccessDenied" and not status)):
        reason, hint = f"the server does not permit it ({answer})", _HINTS["403"]
    elif status in {401, 403} or kind in {"PermissionDeniedError", "UnauthenticatedError"}:
        reason, hint = f"the server does not permit it ({answer or kind})", _HINTS["401" if status == 401 else "403"]
    elif status:
        reason = f"the server answered {answer}"
        hint = _HINTS[_HINT_OF.get(status, "lost" if status >= 500 else "else")]
    elif _never_sent(text):
        reason, hint = "the request could not be made", _HINTS["tls"]
    elif _is_no_path(text):
        reason = first_line(text) if _LISTED_INVALID_PATH in text else "this is no key for its client"
        hint = _HINTS["path"]
    elif any(sign in text for sign in _INVALID_RESPONSES):
        reason, hint = "the answer is not one of an object store", _HINTS["nonsense"]
    elif "following redirect" in text:
        reason, hint = "the server redirects to another address", _HINTS["nonsense"]
    else:
        reason, hint = first_line(text), _HINTS["lost"]
    subject = url if "listed" in message else f"an object of {url}"
    return StoreError(f"{subject} {message}: {reason}", key=key or None, hint=hint)


def read_failure(reason: str, hint: str, key: str, url: str) -> StoreError:
    """The error for an object that was not read. url: of the store, without secrets."""
    return StoreError(f"an object of {url} could not be read: {reason}", key=key or None, hint=hint)


def status_failure(status: int, key: str, url: str, wait: float = 0.0) -> StoreError:
    """The error for a status by which a web server refuses a request. wait: seconds that it asks to wait before the next one."""
    if status in {401, 403}:
        reason, hint = f"the server does not permit it ({status})", _HINTS[f"{status}"]
    else:
        name = {_TOO_MANY: "429", _NOT_IMPLEMENTED: "else"}.get(status, "lost" if status >= 500 else "else")
        delay_text = f" and asks to wait {wait:.0f} s" if wait else ""
        reason, hint = f"the server answered {status}{delay_text}", _HINTS[name]
    return read_failure(reason, hint, key, url)


def no_answer_error(error: OSError | InvalidInputError, key: str, url: str) -> tuple[StoreError, bool]:
    """The error for a web server that did not respond, or not with HTTP (EPROTO); and whether the same request may succeed later."""
    again = False
    number = getattr(error, "errno", None)
    message = error.message if isinstance(error, FrazilError) else getattr(error, "strerror", None) or str(error)
    if isinstance(error, ssl.SSLError) and not isinstance(error, _INCOMPLETE_RESPONSES):
        reason, hint = "the request could not be made", _HINTS["tls"]
    elif isinstance(error, InvalidInputError):
        reason, hint = first_line(message), error.hint or _HINTS["nonsense"]
    elif number == EPROTO:
        reason, hint = first_line(message), _HINTS["nonsense"]
    elif number == ETIMEDOUT or isinstance(error, TimeoutError):
        reason, hint, again = "the server did not answer in time", _HINTS["time"], True
    else:
        reason, hint, again = first_line(message), _HINTS["lost"], True
    return read_failure(reason, hint, key, url), again


def _status(text: str) -> int:
    found = _STATUS.search(text)
    return int(found[1]) if found else 0


def _is_no_key(text: str) -> bool:
    """Whether a 404 is one of an object store about the key. Some servers return 404 to unknown users, and so does every proxy and web server that is none."""
    code = _CODE.search(text)
    if code is not None:
        return code[1] in _NO_KEY
    return _NO_BLOB.search(text) is not None or not _status(text)  # or of a store in memory


def _never_sent(text: str) -> bool:
    return "builder error" in text or "URL scheme is not allowed" in text


def _is_no_path(text: str) -> bool:
    return any(sign in text for sign in _NO_PATH)


def first_line(text: str) -> str:
    """The first line of a client's message, without users, passwords and queries of addresses."""
    line = text.partition("\n")[0].partition("<?xml")[0]
    line = _ADDRESS.sub("://", _QUERY.sub("", line)).strip().rstrip(":.")
    return line[:_LONGEST] or "no reason was given"
