"""What every request passes and every response carries: reading only, from this machine's own names, no scripts.

Decides who is answered and what a browser may do with a page. Must not know what is served.
"""

from __future__ import annotations

from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report draws with scripts of its own: it runs in an origin of its own, which reaches no page of this server."""


def is_loopback(host: str) -> bool:
    """Whether a host, as a user or a browser writes it, without port, is this machine alone."""
    bare = host.removeprefix("[").removesuffix("]").lower().removesuffix(".")
    if bare == "localhost":
        return True
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The host of a Host header, without its port."""
    host, colon, port = header.rpartition(":")
    return host if colon and (port.isdigit() or not port) else header


class Guard:
    """loopback_only: the server is bound to loopback, and a Host that is not loopback is a page of another origin
    that had its name point here (DNS rebinding)."""

    def __init__(self, app: ASGIApp, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        app = self._app if refusal is None else refusal
        await app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("reading only\n", 405, {"Allow": "GET, HEAD"})
        if self._loopback_only and not is_loopback(host_of(Headers(scope=scope).get("host", ""))):
            return PlainTextResponse("this server answers to localhost only\n", 421)
        return None


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("Content-Security-Policy", PAGE_POLICY)
            headers.setdefault("Cache-Control", "no-store")
            headers["X-Content-Type-Options"] = "nosniff"
            headers["Referrer-Policy"] = "no-referrer"
            headers["Cross-Origin-Resource-Policy"] = "same-origin"
            headers["Cross-Origin-Opener-Policy"] = "same-origin"
        await send(message)

    return sent
