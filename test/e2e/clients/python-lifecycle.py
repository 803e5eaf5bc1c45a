"""Closes clients with requests in flight, and asks across a restart of the server.

usage: python-lifecycle.py <url>: prints what it has done, a word a line, and reads a line before each next part.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
from nats.aio.msg import Msg

from tutti_client import InferResult, Tutti, TuttiError, Unavailable, connect, connect_sync

URL = sys.argv[1]
X = {"x": np.ones((1, 4), np.float32)}


def code_of(ask: Callable[[], object]) -> str:
    """Ask, and return the error's code."""
    try:
        ask()
    except TuttiError as error:
        return f"{error.code} {error.retryable}"
    return "ok"


async def code_in_loop(client: Tutti, model: str, **options: Any) -> str:
    """Ask in an event loop, and return the error's code."""
    try:
        await client.infer(model, X, **options)
    except TuttiError as error:
        return f"{error.code} {error.retryable}"
    return "ok"


async def close_in_loop() -> None:
    """Requests in flight end as cancelled; later ones are refused."""
    client = await connect(URL, app="shop")
    asked = [asyncio.ensure_future(code_in_loop(client, "slow")) for _ in range(2)]
    assert await code_in_loop(client, "nothing") == "ok"
    assert client.in_flight == 2
    await client.close()
    assert await asyncio.gather(*asked) == ["TUTTI_CANCELLED False"] * 2
    assert client.in_flight == 0
    assert await code_in_loop(client, "nothing") == "TUTTI_UNAVAILABLE False"


async def close_as_an_answer_comes() -> None:
    """A retryable refusal that arrives in the turn in which the client closes begins no other attempt."""
    client = await connect(URL, app="shop")
    asked = asyncio.ensure_future(code_in_loop(client, "slow", slo="200ms", retries=1))
    assert await code_in_loop(client, "nothing") == "ok"
    (token,) = client._waiting
    refusal = json.dumps({"code": "TUTTI_OVERLOADED", "error": "busy", "retryable": True, "retryAfterMs": 0}).encode()
    headers = {"Nats-Service-Error-Code": "429"}
    message = Msg(client._nats, subject=f"{client._prefix}{token}", data=refusal, headers=headers)
    await asyncio.gather(client.close(), client._on_answer(message))
    assert await asked == "TUTTI_CANCELLED False"


def close_in_threads() -> None:
    """The same for the synchronous face, which may be closed twice."""
    client = connect_sync(URL, app="shop")
    asked: list[Future[InferResult]] = [client.submit("slow", X) for _ in range(2)]
    client.infer("nothing", X)
    client.close()
    client.close()
    assert [code_of(future.result) for future in asked] == ["TUTTI_CANCELLED False"] * 2
    assert code_of(lambda: client.infer("nothing", X)) == "TUTTI_UNAVAILABLE False"


def restart() -> None:
    """While there is no server requests fail at once; afterwards they are answered."""
    with connect_sync(URL, app="shop") as client:
        client.infer("nothing", X)
        print("connected", flush=True)
        sys.stdin.readline()
        while True:
            try:
                client.infer("nothing", X, slo="100ms")
            except Unavailable as error:
                if "not connected" in error.text:
                    break
        print("not connected", flush=True)
        sys.stdin.readline()
        client.infer("nothing", X, slo="1s", retries=1_000, within="30s")
        print("answered", flush=True)


asyncio.run(close_in_loop())
asyncio.run(close_as_an_answer_comes())
close_in_threads()
print("closed", flush=True)
restart()
