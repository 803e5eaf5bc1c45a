"""Runs jobs, each with cases of the table, through the Python client; prints what came of them as one line of JSON.

usage: python-client.py async|threads <file>
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import numpy as np

from tutti_client import (
    DeadlineExceeded,
    InferResult,
    InvalidInput,
    Refused,
    SyncTutti,
    Tutti,
    TuttiError,
    Unavailable,
    connect,
    connect_sync,
)

Json = dict[str, Any]
DTYPES = {"BOOL": "?", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8"} | {
    f"{kind}INT{8 * size}": f"<{code}{size}" for kind, code in (("", "i"), ("U", "u")) for size in (1, 2, 4, 8)
}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
CLASSES = {
    "TUTTI_INVALID_INPUT": InvalidInput,
    "TUTTI_TOO_LARGE": InvalidInput,
    "TUTTI_QUOTA_EXCEEDED": Refused,
    "TUTTI_OVERLOADED": Refused,
    "TUTTI_NOT_READY": Refused,
    "TUTTI_DEADLINE_INFEASIBLE": Refused,
    "TUTTI_DEADLINE_EXCEEDED": DeadlineExceeded,
    "TUTTI_UNAVAILABLE": Unavailable,
}


def arguments(case: Json) -> tuple[str, dict[str, Any], Json]:
    """Model, inputs and options of a case."""
    inputs = {
        name: np.frombuffer(base64.b64decode(tensor["bytes"]), DTYPES[tensor["datatype"]]).reshape(tensor["shape"])
        for name, tensor in case["inputs"].items()
    }
    options = dict(case["options"])
    if "costs" in options:
        options["costs"] = [(step["after"], step["cost"]) for step in options["costs"]]
    if "coldStart" in options:
        options["cold_start"] = options.pop("coldStart")
    return case["model"], inputs, options


def answered(result: InferResult) -> Json:
    """An outcome of the table."""
    outputs = {
        name: {
            "datatype": NAMES[array.dtype],
            "shape": list(array.shape),
            "bytes": base64.b64encode(array.tobytes()).decode(),
        }
        for name, array in result.outputs.items()
    }
    return {"outputs": outputs, "model": result.model, "version": result.version}


def failed(error: BaseException) -> Json:
    """An outcome of the table. Python's own way to say that the caller cancelled is CancelledError."""
    if isinstance(error, (CancelledError, asyncio.CancelledError)):
        return {"code": "TUTTI_CANCELLED", "text": "cancelled by the caller", "retryable": False, "retryAfterMs": None}
    if not isinstance(error, TuttiError):
        raise error
    expected = CLASSES.get(error.code, TuttiError)
    if type(error) is not expected:
        raise AssertionError(f"{error.code} is a {type(error).__name__}, not a {expected.__name__}")
    after = None if error.retry_after is None else round(error.retry_after * 1000, 6)
    return {"code": error.code, "text": error.text, "retryable": error.retryable, "retryAfterMs": after}


async def run_case(client: Tutti, case: Json) -> Json:
    """Run a case as a task."""
    model, inputs, options = arguments(case)
    task = asyncio.ensure_future(client.infer(model, inputs, **options))
    if case.get("cancel"):
        await asyncio.wait([asyncio.ensure_future(client.infer("nothing", {}))])
        task.cancel()
    try:
        return answered(await task)
    except (TuttiError, asyncio.CancelledError) as error:
        return failed(error)


async def run_async(job: Json) -> Json:
    """Run all cases in an event loop."""
    async with await connect(job["servers"], **job["options"]) as client:
        if job["order"] == "together":
            outcomes = await asyncio.gather(*(run_case(client, case) for case in job["cases"]))
        else:
            outcomes = [await run_case(client, case) for case in job["cases"]]
        await asyncio.wait([asyncio.ensure_future(client.infer("nothing", {}))])
        return {"outcomes": outcomes, "lateAnswers": client.late_answers}


def start_case(client: SyncTutti, case: Json) -> Future[InferResult] | TuttiError:
    """Start a case from this thread."""
    model, inputs, options = arguments(case)
    try:
        future = client.submit(model, inputs, **options)
    except TuttiError as error:
        return error
    if case.get("cancel"):
        wait_for_nothing(client)
        future.cancel()
    return future


def end_case(started: Future[InferResult] | TuttiError) -> Json:
    """Wait for a case."""
    try:
        return failed(started) if isinstance(started, TuttiError) else answered(started.result())
    except (TuttiError, CancelledError) as error:
        return failed(error)


def wait_for_nothing(client: SyncTutti) -> None:
    """Ask for a model that is not there: its answer follows those to earlier requests."""
    with contextlib.suppress(TuttiError):
        client.infer("nothing", {})


def run_threads(job: Json) -> Json:
    """Run all cases through the synchronous face."""
    with connect_sync(job["servers"], **job["options"]) as client:
        if job["order"] == "together":
            outcomes = [end_case(started) for started in [start_case(client, case) for case in job["cases"]]]
        else:
            outcomes = [end_case(start_case(client, case)) for case in job["cases"]]
        wait_for_nothing(client)
        return {"outcomes": outcomes, "lateAnswers": client.client.late_answers}


def run(job: Json) -> Json:
    """Run the cases of a job."""
    try:
        return asyncio.run(run_async(job)) if sys.argv[1] == "async" else run_threads(job)
    except TuttiError as error:
        return {"refused": failed(error)}


print(json.dumps([run(job) for job in json.loads(Path(sys.argv[2]).read_text())]))
