"""One call: what it says, its attempts, and its one outcome."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil, floor, inf
from typing import TYPE_CHECKING, Literal, TypedDict

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from numpy.typing import ArrayLike

from .errors import TuttiError, invalid
from .tensors import Array, as_array, decode_binary, decode_json, encode_binary, encode_json, number_text

if TYPE_CHECKING:
    from .client import Tutti

Duration = str | float | timedelta
"""A length of time: `"25ms"`, `"1.5s"`, a number of milliseconds, or a timedelta."""

_GRACE_MS = 60  # wait after the deadline before an answer counts as lost
_PAUSE_MS = 5  # before the second attempt where the error gives no time; doubled with each attempt
_SENSIBLE = 0.5  # least part of the SLO for a retry: with less it would mostly be refused
_SIZE_HINT_MAX, _COST_STEPS_MAX, _COST_MAX = 10**9, 8, 10**9
_CONTENT = {"binary": "application/vnd.tutti.tensor", "json": "application/json"}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(us|µs|ms|s|m|h)?")
_FACTORS = {"us": 1, "µs": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NAME = re.compile(r"(?!.{65})[A-Za-z0-9][A-Za-z0-9_-]*")
_MODEL = re.compile(rf"{_NAME.pattern}(/[A-Za-z0-9][A-Za-z0-9_-]*)?")
_TRACEPARENT = re.compile(r"(00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-)([0-9a-f]{2})")


class InferOptions(TypedDict, total=False):
    """Options of `infer`. All have defaults; None means the default."""

    app: str | None  # application in whose name the request is made; default: the client's
    slo: Duration | None  # from arrival to answer; default: the model's own
    costs: Sequence[tuple[Duration, float]] | None  # instead of `slo`, of a late answer: [("25ms", 1), ("100ms", 3)]
    cold_start: Duration | None  # how much longer to wait, should the model be parked: its own `cold_start`; default: 0
    outputs: Sequence[str] | None  # names of the outputs wanted; default: all
    retries: int | None  # most retries after retryable errors, each with the SLO anew; default: the client's
    within: Duration | None  # bounds all attempts together; default: (retries + 1) · (SLO + cold start + 60 ms)
    form: Literal["binary", "json"] | None  # default: binary
    version: str | None  # of the model; default: the route's
    priority: int | None  # 0 to 255, the highest first, among this application's requests under overload; default: 0
    size: float | None  # length of the request in its model's own unit (tokens, pixels of width): above zero
    id: str | None  # the application's own id of the request; default, where there are retries: a random one
    traceparent: str | None  # W3C trace context of the caller; an unreadable one is left out


@dataclass(frozen=True)
class InferResult:
    """Outputs by name: read-only arrays. `version` is None where the answer doesn't say it."""

    outputs: dict[str, Array]
    model: str
    version: str | None = None


class Flight:
    """One call, from its checked options to its outcome: outputs of any attempt, or an error of the last one."""

    def __init__(self, client: Tutti, target: str, inputs: Mapping[str, ArrayLike], options: InferOptions) -> None:
        if unknown := options.keys() - InferOptions.__annotations__.keys():
            raise TypeError(f"infer() has no option {', '.join(sorted(unknown))}")
        app, retries, form, own = options.get("app"), options.get("retries"), options.get("form"), options.get("id")
        slo, cold, within = options.get("slo"), options.get("cold_start"), options.get("within")
        outputs, priority, size = options.get("outputs"), options.get("priority"), options.get("size")
        retries = client._retries if retries is None else retries
        if form not in (None, *_CONTENT):
            raise invalid(f'"{form}" is no form: give "binary" or "json"')
        if size is not None and not 0 < size <= _SIZE_HINT_MAX:
            raise invalid(f"a size of {number_text(size)}: give a number above zero and up to {_SIZE_HINT_MAX}")
        if not isinstance(retries, int) or retries < 0:
            raise invalid(f"{retries!r} retries: give a whole number")
        self._client, self._target, self._retries = client, checked("a model", target, _MODEL), retries
        self._app = client._app if app is None else checked("an application", app)
        self._costs = _costs_of(options)
        self._slo = self._costs[0][0] if self._costs else None if slo is None else micros(slo)
        last = self._costs[-1][0] if self._costs else self._slo
        self._worth_ms = inf if last is None else last / 1000  # until when an answer is worth something
        cold_ms = ceil(micros(0 if cold is None else cold) / 1000)
        self._wait_ms = (client._timeout_ms if last is None else ceil(last / 1000)) + cold_ms
        self._within_ms = (retries + 1) * (self._wait_ms + _GRACE_MS) if within is None else micros(within) / 1000
        trace = _TRACEPARENT.fullmatch(options.get("traceparent") or "")
        headers = {
            "Content-Type": _CONTENT[form or "binary"],
            "Tutti-Slo": None if self._slo is None else f"{self._slo}us",
            "Tutti-Costs": _costs_text(self._costs) or None,
            "Tutti-Outputs": None if outputs is None else ",".join(outputs),
            "Tutti-Version": options.get("version"),
            "Tutti-Priority": None if priority is None else str(priority),
            "Tutti-Size": None if size is None else number_text(size),
            "Nats-Msg-Id": str(uuid.uuid4()) if own is None and retries > 0 else own,
            "traceparent": f"{trace[1]}{int(trace[2], 16) & 1:02}" if trace else None,
        }
        self._headers = {name: value for name, value in headers.items() if value is not None}
        # Older versions of nats-py write a line break as it is: what follows it would be another header, or a command.
        if wrong := [key for key, text in self._headers.items() if not isinstance(text, str) or _CONTROL.search(text)]:
            raise invalid(f"{', '.join(wrong)}: give a text without line breaks and other control characters")
        if not isinstance(inputs, Mapping):
            raise invalid('inputs: give a dict of arrays by name, such as {"x": np.zeros((1, 256), np.float32)}')
        arrays = {name: as_array(name, value) for name, value in inputs.items()}
        self._payload = encode_json(arrays, outputs, own) if form == "json" else encode_binary(arrays)
        self._outcome: InferResult | TuttiError | None = None
        self._signal: asyncio.Future[None] | None = None
        self._tokens: list[str] = []

    async def run(self) -> InferResult:
        """Make attempts until the call is settled. What nobody waits for any more is withdrawn."""
        now, wait_ms, withdraw = asyncio.get_running_loop().time, self._wait_ms, True
        started = now()
        try:
            while True:
                outcome = await self._attempt(wait_ms)
                while isinstance(outcome, TuttiError):
                    pause_ms = max((outcome.retry_after or 0) * 1000, _PAUSE_MS * 2 ** (len(self._tokens) - 1))
                    left_ms = self._within_ms - (now() - started) * 1000 - pause_ms
                    if len(self._tokens) > self._retries or not outcome.retryable or left_ms < wait_ms * _SENSIBLE:
                        raise outcome
                    outcome = await self._next(pause_ms)
                if outcome is not None:
                    return outcome
                wait_ms = min(wait_ms, left_ms)
        except TuttiError as error:
            withdraw = error.code == "TUTTI_CANCELLED"
            raise
        finally:
            is_open = [self._client._waiting.pop(token, None) is not None for token in self._tokens]
            if withdraw and any(is_open[-1:]):
                await self._publish(f"cancel.{self._app}", f"{self._client._prefix}{self._tokens[-1]}".encode())

    def on_answer(self, token: str, message: Msg) -> None:
        """Take the answer to one of the attempts."""
        outcome = _read(message, self._target)
        if isinstance(outcome, InferResult) or token == self._tokens[-1]:
            self.settle(outcome)

    def settle(self, outcome: InferResult | TuttiError) -> None:
        """Hand the outcome to `run`. Outputs and a cancellation stay: no answer that comes after them counts."""
        if self._outcome is None or (isinstance(self._outcome, TuttiError) and self._outcome.code != "TUTTI_CANCELLED"):
            self._outcome = outcome
        self._wake()

    async def _attempt(self, wait_ms: float) -> InferResult | TuttiError | None:
        token = self._client._new_token()
        self._tokens.append(token)
        if len(self._payload) > (most := self._client._nats.max_payload):
            text = f"the request has {len(self._payload)} bytes; the server takes at most {most} bytes in one message"
            return TuttiError.of("TUTTI_TOO_LARGE", text)
        self._client._waiting[token] = self
        reply, headers = f"{self._client._prefix}{token}", self._headers_for(wait_ms)
        if not await self._publish(f"infer.{self._target}.{self._app}", self._payload, reply, headers):
            del self._client._waiting[token]
            return TuttiError.of("TUTTI_UNAVAILABLE", "not connected to a NATS server at the moment")
        text = f"no answer from {self._target} within {floor(wait_ms + 0.5)} ms: its ingress may have died"
        return await self._next(wait_ms + _GRACE_MS) or TuttiError.of("TUTTI_UNAVAILABLE", text)

    def _headers_for(self, wait_ms: float) -> dict[str, str]:
        """Make the headers of an attempt with so much time. It keeps the steps of costs that it can still meet."""
        if self._slo is None or wait_ms >= self._worth_ms:
            return self._headers
        left = floor(wait_ms * 1000)
        headers = {name: value for name, value in self._headers.items() if name != "Tutti-Costs"}
        costs = _costs_text([step for step in self._costs if step[0] <= left])
        return headers | ({"Tutti-Costs": costs} if costs else {"Tutti-Slo": f"{min(self._slo, left)}us"})

    async def _publish(
        self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> bool:
        try:
            await self._client._nats.publish(subject, payload, reply, headers)
        except NatsError:
            return False
        return True

    async def _next(self, within_ms: float) -> InferResult | TuttiError | None:
        """Wait for the next outcome; None: there is none within that time."""
        if self._outcome is None:
            loop = asyncio.get_running_loop()
            self._signal = loop.create_future()
            timer = loop.call_later(within_ms / 1000, self._wake)
            try:
                await self._signal
            finally:
                timer.cancel()
        outcome, self._outcome = self._outcome, None
        return outcome

    def _wake(self) -> None:
        if self._signal is not None and not self._signal.done():
            self._signal.set_result(None)


def _read(message: Msg, target: str) -> InferResult | TuttiError:
    """Decode an answer. One that can't be read is TUTTI_INTERNAL."""
    headers, data = message.headers or {}, message.data
    try:
        if "Nats-Service-Error-Code" in headers:
            body = json.loads(data)
            after_s = None if (after := body.get("retryAfterMs")) is None else after / 1000
            return TuttiError.of(body["code"], body["error"], body["retryable"], after_s)
        if not data:  # no form of an answer is empty: the server says that nobody subscribes
            advice = "start one with `tutti up` or `tutti run ingress`"
            return TuttiError.of("TUTTI_UNAVAILABLE", f"no ingress is there to take a request for {target}: {advice}")
        model, version, outputs = (target, "", decode_binary(data)) if data[:4] == b"TTN1" else decode_json(data)
        return InferResult(outputs, model or target, version or headers.get("Tutti-Version"))
    except Exception as error:
        return TuttiError.of("TUTTI_INTERNAL", f"the answer can't be read: {error}")


def checked(what: str, name: str, pattern: re.Pattern[str] = _NAME) -> str:
    """Check that something can have this name."""
    if not pattern.fullmatch(name):
        raise invalid(f'"{name}" is no name of {what}: 1 to 64 letters, digits, "-" and "_", a letter or digit first')
    return name


def micros(given: Duration) -> int:
    """Read a length of time, in whole microseconds."""
    count = given / timedelta(milliseconds=1) if isinstance(given, timedelta) else given
    if (match := _DURATION.fullmatch(count.strip() if isinstance(count, str) else f"{number_text(count)}ms")) is None:
        raise invalid(f'"{given}" is no length of time: write 25ms, 1.5s or a number of milliseconds')
    return floor(float(match[1]) * _FACTORS[match[2] or "ms"] + 0.5)


def _costs_of(options: InferOptions) -> list[tuple[int, float]]:
    """Check the steps, and leave out those at which the cost stays."""
    if (costs := options.get("costs")) is None:
        return []
    if options.get("slo") is not None:
        raise invalid("the first step of the costs is the SLO: leave slo out")
    try:
        steps = [(micros(after), 0.0 + cost) for after, cost in costs]
    except (TypeError, ValueError):  # it is a header's text, say, and no pairs of a time and a number
        steps = []
    is_rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in zip([(0, 0.0), *steps], steps, strict=False))
    if not (is_rising and 0 < len(steps) <= _COST_STEPS_MAX and 0 < steps[-1][1] <= _COST_MAX):
        raise invalid(f'costs: give 1 to {_COST_STEPS_MAX} steps, later and costlier: [("25ms", 1), ("100ms", 3)]')
    return [step for i, step in enumerate(steps) if i == 0 or step[1] > steps[i - 1][1]]


def _costs_text(steps: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{after}us={number_text(cost)}" for after, cost in steps)
