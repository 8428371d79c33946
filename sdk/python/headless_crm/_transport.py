"""Sends requests: authenticates, retries what is safe to retry, and raises CrmError for every failure."""

from __future__ import annotations

import email.utils
import hashlib
import random
import time
import urllib.parse
import uuid
from typing import Any, Callable, Iterator, Mapping, TypedDict, Union

import httpx

Credential = Union[str, Callable[[], str]]
"""A secret, or a function that returns it, called before each attempt so that it can be renewed."""

_FEED_WAIT_SECONDS = 30
_FEED_PAUSE_SECONDS = 1.0


class CallOptions(TypedDict, total=False):
    """Options of a single call."""

    timeout: float
    """Seconds for each attempt."""
    retries: int
    """Retries after a failed attempt."""
    longest_wait: float
    """Seconds; a failure with a longer Retry-After is raised immediately."""
    headers: Mapping[str, str]
    """Sent in addition to the client's own."""
    on_response: Callable[[httpx.Response], None]
    """Receives every response, including those of failed attempts: `response.headers["etag"]`."""


class CrmError(Exception):
    """A failed call. Branch on `code`, never on the message."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        """A code of the API, or CONNECTION_FAILED, TIMED_OUT, UNREADABLE_ANSWER."""
        self.message = message
        self.status = status
        """The HTTP status; None without a response."""
        self.details: Mapping[str, Any] = details or {}
        self.request_id = request_id
        """Include it when you ask for help."""
        self.retry_after = retry_after
        """Seconds after which the same call may succeed."""

    @property
    def fields(self) -> list[dict[str, Any]]:
        """Every problem with the request: `field`, `code`, `message`. Empty for other failures."""
        return list(self.details.get("fields", []))


class Transport:
    def __init__(
        self,
        base_url: str,
        *,
        api_key: Credential | None,
        token: Credential | None,
        timeout: float,
        retries: int,
        longest_wait: float,
        user_agent: str,
    ) -> None:
        self._api_key = api_key
        self._token = token
        self._retries = retries
        self._longest_wait = longest_wait
        # The API never redirects, and the credential must not be sent to another host.
        self._http = httpx.Client(
            base_url=base_url, timeout=timeout, follow_redirects=False, headers={"User-Agent": user_agent}
        )

    def close(self) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        options: CallOptions,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        file: tuple[str, bytes, str] | None = None,
        takes_key: bool = False,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        is_file: bool = False,
    ) -> Any:
        headers = dict(options.get("headers", {}))
        if takes_key:
            # All attempts send the same key, so that the server does the work once.
            headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
        if if_match is not None:
            headers["If-Match"] = if_match
        content: dict[str, Any] = {}
        if file is not None:
            content["content"], headers["Content-Type"] = _form(*file)
        elif json is not None:
            content["json"] = json
        repeatable = method == "GET" or takes_key
        retries = options.get("retries", self._retries)
        longest_wait = options.get("longest_wait", self._longest_wait)
        failures = 0
        while True:
            try:
                response = self._send(method, path, query, headers, content, options)
                return response.content if is_file else _data(response)
            except CrmError as error:
                if failures >= retries or not _may_pass(error, repeatable):
                    raise
                if (error.retry_after or 0) > longest_wait:
                    raise
                time.sleep(_wait_after(error, failures))
                failures += 1

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        content: Mapping[str, Any],
        options: CallOptions,
    ) -> httpx.Response:
        if "timeout" in options:
            content = {**content, "timeout": options["timeout"]}
        try:
            response = self._http.request(
                method,
                path,
                params={name: _text(value) for name, value in (query or {}).items() if value is not None},
                headers={**headers, **self._credential()},
                **content,
            )
        except httpx.TimeoutException as error:
            raise CrmError("TIMED_OUT", "The request timed out.") from error
        except httpx.TransportError as error:
            raise CrmError("CONNECTION_FAILED", f"The connection failed: {error}") from error
        if "on_response" in options:
            options["on_response"](response)
        if not response.is_success:
            raise _error(response)
        return response

    def _credential(self) -> dict[str, str]:
        def read(credential: Credential) -> str:
            return credential() if callable(credential) else credential

        if self._api_key is not None:
            return {"x-api-key": read(self._api_key)}
        if self._token is not None:
            return {"Authorization": f"Bearer {read(self._token)}"}
        return {}


def pages(fetch: Callable[[Any], Any]) -> Iterator[Any]:
    """Every page of a list. `fetch` takes a cursor, None for the first page."""
    cursor = None
    while True:
        page = fetch(cursor)
        yield page
        cursor = page.get("next_cursor")
        if not cursor:
            return


def items(name: str, fetch: Callable[[Any], Any]) -> Iterator[Any]:
    """Every item of a list, over all pages."""
    for page in pages(fetch):
        yield from page[name]


def follow(cursor: str | None, wait: int | None, fetch: Callable[[str | None, int], Any]) -> Iterator[Any]:
    """Every page of an endless list. Waits for the next one."""
    wait = _FEED_WAIT_SECONDS if wait is None else wait
    while True:
        asked = time.monotonic()
        # The first call returns immediately, so that the caller can store where the feed starts.
        is_begun = cursor is not None and cursor != "now"
        page = fetch(cursor, wait if is_begun else 0)
        is_new = page["next_cursor"] != cursor
        cursor = page["next_cursor"]
        if is_new:
            yield page
        elif time.monotonic() - asked < _FEED_PAUSE_SECONDS:
            time.sleep(_FEED_PAUSE_SECONDS)


def feed_options(options: CallOptions, wait: int) -> CallOptions:
    """Options of a call that the server may hold for `wait` seconds, and that is retried until it succeeds."""
    defaults: CallOptions = {"timeout": wait + 15.0, "retries": 2**31, "longest_wait": float("inf")}
    return {**defaults, **options}


def segment(value: str) -> str:
    """A path parameter, encoded. Raises ValueError for a value that would change the path."""
    if value in ("", ".", ".."):
        raise ValueError(f"A path parameter must not be {value!r}.")
    return urllib.parse.quote(value, safe="")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _form(name: str, content: bytes, content_type: str) -> tuple[bytes, str]:
    """A form with one file. The same file encodes to the same bytes, as a repeated Idempotency-Key requires."""
    boundary = "headless-crm-" + hashlib.sha256(content).hexdigest()[:32]
    quoted = name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
        f"Content-Type: {content_type}\r\n\r\n"
    )
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


def _data(response: httpx.Response) -> Any:
    try:
        body = response.json()
    except ValueError as error:
        raise CrmError("UNREADABLE_ANSWER", "The response is not JSON.", status=response.status_code) from error
    is_envelope = isinstance(body, dict) and "success" in body and "data" in body
    return body["data"] if is_envelope else body


def _error(response: httpx.Response) -> CrmError:
    try:
        body = response.json()
    except ValueError:
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    retry_after = _retry_after(response.headers.get("retry-after"))
    status, request_id = response.status_code, response.headers.get("x-request-id")
    if isinstance(error, dict) and "code" in error:
        code, message = error["code"], error.get("message", "")
    elif isinstance(error, str):
        # Sign-in errors have the format of RFC 6749.
        code, message = error, body.get("error_description", "")
    else:
        code, message = "UNREADABLE_ANSWER", f"The response with status {status} is not from the API."
    return CrmError(
        code, message, status=status, details=details, request_id=request_id, retry_after=retry_after
    )


def _retry_after(header: str | None) -> float | None:
    """Parses Retry-After. Proxies may send a date instead of seconds."""
    if header is None:
        return None
    if header.isdigit():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _may_pass(error: CrmError, repeatable: bool) -> bool:
    # Only a larger plan or the next month helps.
    if error.code == "QUOTA_EXCEEDED":
        return False
    # Rejected before anything was done.
    if error.status == 429 or error.code in ("QUOTA_UNAVAILABLE", "IDEMPOTENCY_IN_PROGRESS"):
        return True
    return repeatable and (error.status is None or error.status >= 500)


def _wait_after(error: CrmError, failures: int) -> float:
    """Returns the requested wait in seconds, or a backoff that doubles from half a second to eight."""
    if error.retry_after is not None:
        return error.retry_after + random.random() * 0.25
    return min(8.0, 0.5 * 2 ** min(failures, 5)) * (0.5 + random.random() / 2)
