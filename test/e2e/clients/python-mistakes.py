"""Makes calls that can't be made as they are.

usage: python-mistakes.py <url>: prints by call the code of its InvalidInput or the name of another error, as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from tutti_client import InvalidInput, connect_sync

URL = sys.argv[1]
X = {"x": np.ones((1, 4), np.float32)}
INFER: list[dict[str, Any]] = [
    *(
        {name: f"a{code}b"}
        for name in ("id", "version")
        for code in ("\r\nTutti-Priority: 255", "\n", "\r", "\0", "\x7f")
    ),
    {"outputs": ["y", "z\r\nTutti-Priority: 255"]},
    {"id": 17},
    {"version": 2},
]


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
print(json.dumps(outcomes))
