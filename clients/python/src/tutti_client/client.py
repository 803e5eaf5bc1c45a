"""Connects to the cluster, for asyncio (`connect`) and for threads (`connect_sync`)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
import ssl
import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from numpy.typing import ArrayLike

from .errors import TuttiError, invalid
from .flight import Duration, Flight, InferOptions, InferResult, checked, micros

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
_IN_FLIGHT_MAX, _CONNECT_S = 65_536, 5
_log = logging.getLogger(__name__)


class Tutti:
    """A client with a connection of its own. Use it in the event loop in which it connected."""

    def __init__(self, nats: Client, app: str | None, retries: int, timeout: Duration) -> None:
        self._nats, self._timeout_ms, self._closed = nats, micros(timeout) / 1000, False
        self._app, self._retries = "default" if app is None else checked("an application", app), retries
        # One subscription for all answers: each reply subject ends in a token, which is never given twice.
        self._prefix = f"_INBOX{'' if app is None else '.' + app}.{uuid.uuid4().hex}."
        self._tokens, self._waiting = itertools.count(1), dict[str, Flight]()
        self._flights, self._idle = set[Flight](), asyncio.Event()
        self.late_answers = 0
        """Answers without a waiting request: after their deadline, after a cancellation, or a second time."""

    async def infer(self, model: str, inputs: Mapping[str, ArrayLike], **options: Unpack[InferOptions]) -> InferResult:
        """Ask a model for its outputs. A batch axis of 1 may be left out. Cancelling the task cancels the request."""
        return await self._run(Flight(self, model, inputs, options))

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their answers."""
        return len(self._flights)

    async def close(self) -> None:
        """End the requests in flight with TUTTI_CANCELLED, and close the connection."""
        self._closed = True
        for flight in self._flights:
            flight.settle(TuttiError.of("TUTTI_CANCELLED", "the client was closed"))
        while self._flights:
            await self._idle.wait()
        await self._nats.close()

    async def __aenter__(self) -> Tutti:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, flight: Flight) -> InferResult:
        if self._closed:
            raise TuttiError.of("TUTTI_UNAVAILABLE", "the client is closed", retryable=False)
        if len(self._flights) >= _IN_FLIGHT_MAX:
            raise TuttiError.of("TUTTI_OVERLOADED", f"this client has {_IN_FLIGHT_MAX} requests in flight already")
        self._flights.add(flight)
        try:
            return await flight.run()
        finally:
            self._flights.discard(flight)
            if self._closed and not self._flights:
                self._idle.set()

    def _new_token(self) -> str:
        return f"{next(self._tokens):x}"

    async def _on_answer(self, message: Msg) -> None:
        token = message.subject[len(self._prefix) :]
        if flight := self._waiting.pop(token, None):
            flight.on_answer(token, message)
        else:
            self.late_answers += 1


async def connect(
    servers: str | Sequence[str],
    *,
    app: str | None = None,
    credentials: str | PathLike[str] | None = None,
    tls: ssl.SSLContext | str | PathLike[str] | None = None,
    name: str = "tutti-client",
    retries: int = 0,
    timeout: Duration = "10s",
) -> Tutti:
    """Connect to `nats://host:4222`, or several of a cluster.

    `app` names the application that asks, unless a request names another. `credentials` is a file with its nkey seed,
    or a .creds file. `tls` is the PEM file of the authority of the servers' certificates, or a context with a
    certificate of the client's own; then a server without TLS is refused. `retries` is for requests that give no
    number, and `timeout` how long a request without an SLO waits. Raises Unavailable where no server answers, a
    TuttiError with TUTTI_FORBIDDEN where they refuse the credentials, and InvalidInput for what can't be an option.
    """
    urls = [url for text in ([servers] if isinstance(servers, str) else servers) for url in text.split(",")]
    if not any(urls):
        raise invalid('servers: give an address, such as "nats://127.0.0.1:4222"')
    context = tls if tls is None or isinstance(tls, ssl.SSLContext) else ssl.create_default_context(cafile=tls)
    nats, failures, is_connecting = _TlsClient() if context else Client(), 0, True
    tutti = Tutti(nats, app, retries, timeout)

    async def on_error(error: Exception) -> None:
        nonlocal failures
        failures += 1
        if not is_connecting:
            _log.warning("connection %s: %s", name, error)
        elif failures >= len(urls):
            raise error  # nats-py alone would go on for ever

    connecting = nats.connect(
        urls,
        name=name,
        error_cb=on_error,
        tls=context,
        connect_timeout=_CONNECT_S,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.02,  # type: ignore[arg-type]
        ping_interval=3,
        pending_size=0,  # publishing never waits, and fails while there is no connection
        **_identity(credentials),
    )
    try:
        await asyncio.wait_for(connecting, _CONNECT_S * (len(urls) + 1))
        if isinstance(nats, _TlsClient) and not nats.is_checked:
            raise NatsError("this version of nats-py can't be made to demand TLS")
        is_connecting = False
    except (NatsError, OSError, asyncio.TimeoutError) as error:
        is_connecting = False
        with contextlib.suppress(asyncio.TimeoutError):  # it may hang after a failed TLS handshake
            await asyncio.wait_for(nats.close(), 0.2)
        if re.search("authorization|authentication", str(error), re.IGNORECASE):
            text = f"{', '.join(urls)} does not accept the credentials of {name}: {error}"
            raise TuttiError.of("TUTTI_FORBIDDEN", text) from error
        raise TuttiError.of("TUTTI_UNAVAILABLE", f"no NATS server answers at {', '.join(urls)}: {error!r}") from error
    await nats.subscribe(f"{tutti._prefix}*", cb=tutti._on_answer)
    return tutti


class _TlsClient(Client):
    """A client that refuses servers without TLS, also when it reconnects; nats-py alone would go on in plain text."""

    is_checked = False

    async def _process_info(self, info: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self.is_checked = True
        if not info.get("tls_required"):
            raise NatsError("the server does not require TLS")
        await super()._process_info(info, *args, **kwargs)


def _identity(path: str | PathLike[str] | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise TuttiError.of("TUTTI_FORBIDDEN", f"the credentials file {path} cannot be read") from error
    if (seed := re.search(r"^\s*(SU[A-Z2-7]{56})\s*$", text, re.MULTILINE)) is None:
        raise TuttiError.of("TUTTI_FORBIDDEN", f"{path} holds neither an nkey seed (SU…) nor a .creds file")
    return {"user_credentials": str(path)} if "BEGIN NATS USER JWT" in text else {"nkeys_seed_str": seed[1]}


class SyncTutti:
    """The same client for threads: its event loop runs in one background thread. Any thread may call it."""

    def __init__(self, connecting: Coroutine[Any, Any, Tutti]) -> None:
        self._loop, self._lock = asyncio.new_event_loop(), threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tutti-client", daemon=True)
        self._thread.start()
        try:
            self.client = asyncio.run_coroutine_threadsafe(connecting, self._loop).result()
            """The client in the background thread, for its figures."""
        except BaseException:
            self._stop()
            raise

    def infer(self, model: str, inputs: Mapping[str, ArrayLike], **options: Unpack[InferOptions]) -> InferResult:
        """Ask a model for its outputs, and wait for them."""
        future = self.submit(model, inputs, **options)
        try:
            return future.result()
        finally:
            future.cancel()  # where the wait was interrupted

    def submit(
        self, model: str, inputs: Mapping[str, ArrayLike], **options: Unpack[InferOptions]
    ) -> Future[InferResult]:
        """Ask a model for its outputs without waiting. Cancelling the future cancels the request."""
        flight = Flight(self.client, model, inputs, options)
        with self._lock:
            if self._loop.is_closed():
                raise TuttiError.of("TUTTI_UNAVAILABLE", "the client is closed", retryable=False)
            return asyncio.run_coroutine_threadsafe(self.client._run(flight), self._loop)

    def close(self) -> None:
        """End the requests in flight with TUTTI_CANCELLED, and close the connection."""
        with self._lock:
            if not self._loop.is_closed():
                asyncio.run_coroutine_threadsafe(self.client.close(), self._loop).result()
                self._stop()

    def __enter__(self) -> SyncTutti:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _sync(connect: Callable[P, Coroutine[Any, Any, Tutti]]) -> Callable[P, SyncTutti]:
    return lambda *args, **kwargs: SyncTutti(connect(*args, **kwargs))


connect_sync = _sync(connect)
