"""Makes calls that can't be made as they are, and one that gives None for every option.

usage: python-mistakes.py <url>: prints by call the code of its InvalidInput, or another outcome, as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from tutti_client import InferOptions, InvalidInput, connect_sync

URL = sys.argv[1]
X = {"x": np.ones((1, 4), np.float32)}
INFER: list[dict[str, Any]] = [
    *(
        {name: f"a{code}b"}
        for name in ("id", "version")
        for code in ("\r\nTutti-Priority: 255", "\n", "\r", "\0", "\x7f")
    ),
    {"outputs": ["y", "z\r\nTutti-Priority: 255"]},
    {"form": "xml"},
    {"form": ""},
    {"app": ""},
    {"id": 17},
    {"version": 2},
]
COSTS: list[Any] = [
    "25ms=1",
    17,
    {"25ms": 1},
    ["25ms=1"],
    [("25ms",)],
    [("25ms", 1, 2)],
    [("25ms", "1")],
    [(None, 1)],
    [("25ms", None)],
    [25, 1],
]
CONNECT: list[dict[str, Any]] = [{"app": "a.b"}, {"app": "a b"}, {"app": ""}, {"timeout": "soon"}]


def outcome_of(error: Exception) -> str:
    """Code of an invalid-input error, or what another one is."""
    return error.code if isinstance(error, InvalidInput) else repr(error)


outcomes = {}
with connect_sync(URL, app="shop") as client:
    for options in INFER:
        try:
            client.infer("plain", X, **{"slo": "1s", **options})
            outcomes[f"infer {options}"] = "ok"
        except Exception as error:
            outcomes[f"infer {options}"] = outcome_of(error)
    for costs in COSTS:
        try:
            client.infer("plain", X, costs=costs)
            outcomes[f"costs {costs!r}"] = "ok"
        except Exception as error:
            outcomes[f"costs {costs!r}"] = outcome_of(error)
    nothing: Any = dict.fromkeys(InferOptions.__annotations__)
    for options in ({}, nothing):
        client.infer("plain", X, **options)
    for inputs in ([np.ones(4, np.float32)], np.ones(4, np.float32), None):
        try:
            client.infer("plain", inputs, slo="1s")  # type: ignore[arg-type]
            outcomes[f"inputs {inputs!r}"] = "ok"
        except Exception as error:
            outcomes[f"inputs {inputs!r}"] = outcome_of(error)
    for strings in (["a", "b"], np.array(["a"])):
        try:
            client.infer("plain", {"x": strings}, slo="1s")
            outcomes[f"input {strings!r}"] = "ok"
        except Exception as error:
            outcomes[f"input {strings!r}"] = outcome_of(error)
for servers in ("", ","):
    try:
        with connect_sync(servers):
            outcomes[f"connect {servers!r}"] = "ok"
    except Exception as error:
        outcomes[f"connect {servers!r}"] = outcome_of(error)
for options in CONNECT:
    try:
        with connect_sync(URL, **options):
            outcomes[f"connect {options}"] = "ok"
    except Exception as error:
        outcomes[f"connect {options}"] = outcome_of(error)
print(json.dumps(outcomes))
