"""Tensors in the forms that travel, binary and JSON (docs/messages.md), to and from numpy arrays."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import invalid

Array = NDArray[Any]
# The order is that of the numbers on the wire.
TYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"]
DTYPES = [np.dtype(x) for x in ("?", "u1", "<u2", "<u4", "<u8", "i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8")]
# Types of plain numbers and lists, by numpy's kind of them.
_PLAIN = {"b": np.dtype("?"), "i": np.dtype("<i8"), "f": np.dtype("<f4")}
_NAME_BYTES_MAX = 256


def as_array(name: str, value: ArrayLike) -> Array:
    """Convert an input to an array as it travels: contiguous and little-endian."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise invalid(f'input "{name}": {error}') from error
    is_plain = isinstance(value, (bool, int, float, list, tuple)) and not isinstance(value, np.generic)
    dtype = _PLAIN.get(array.dtype.kind) if is_plain else array.dtype.newbyteorder("<")
    if dtype is None or dtype not in DTYPES:  # numpy takes None for its default, FP64
        raise invalid(f'input "{name}" has the dtype {array.dtype}, which is none of {", ".join(TYPES)}')
    if not 0 < len(name.encode()) <= _NAME_BYTES_MAX:
        raise invalid(f'the name "{name:.40}" has not 1 to {_NAME_BYTES_MAX} bytes')
    return np.asarray(array, dtype=dtype, order="C")


def encode_binary(arrays: Mapping[str, Array]) -> bytes:
    """Encode arrays of `as_array` as one binary message, with one copy of their data."""
    head = struct.pack("<4sHH", b"TTN1", len(arrays), 0)
    data: list[Any] = []
    for name, array in arrays.items():
        text, number = name.encode(), DTYPES.index(array.dtype)
        head += struct.pack("<BBHI", number, array.ndim, len(text), array.nbytes)
        head += struct.pack(f"<{array.ndim}I", *array.shape) + text
        data += (array.data, bytes(-array.nbytes % 8))
    return b"".join((head, bytes(-len(head) % 8), *data))


def decode_binary(message: bytes) -> dict[str, Array]:
    """Decode a binary message into read-only views of it."""
    magic, count, flags = struct.unpack_from("<4sHH", message)
    if magic != b"TTN1" or flags != 0:
        raise ValueError("it is no tensor message of this version")
    at, entries = 8, []
    for _ in range(count):
        number, rank, length, size = struct.unpack_from("<BBHI", message, at)
        dims = struct.unpack_from(f"<{rank}I", message, at + 8)
        at += 8 + 4 * rank
        entries.append((message[at : at + length].decode(), DTYPES[number], dims, size))
        at += length
    outputs: dict[str, Array] = {}
    at += -at % 8
    for name, dtype, dims, size in entries:
        outputs[name] = np.frombuffer(message, dtype, size // dtype.itemsize, at).reshape(dims)
        at += size + -size % 8
    return outputs


def encode_json(arrays: Mapping[str, Array], wanted: Sequence[str] | None, request_id: str | None) -> bytes:
    """Encode a request as the TypeScript client does, byte for byte."""
    tensors = []
    for name, array in arrays.items():
        shape, data = ",".join(map(str, array.shape)), ",".join(_elements(array))
        type_ = TYPES[DTYPES.index(array.dtype)]
        tensors.append(f'{{"name":{_quoted(name)},"shape":[{shape}],"datatype":"{type_}","data":[{data}]}}')
    head = "" if request_id is None else f'"id":{_quoted(request_id)},'
    names = None if wanted is None else ",".join(f'{{"name":{_quoted(name)}}}' for name in wanted)
    tail = "" if names is None else f',"outputs":[{names}]'
    return f'{{{head}"inputs":[{",".join(tensors)}]{tail}}}'.encode()


def decode_json(message: bytes) -> tuple[str, str, dict[str, Array]]:
    """Decode an answer: model, version and outputs."""
    body = json.loads(message)
    outputs: dict[str, Array] = {}
    for tensor in body["outputs"]:
        dtype = DTYPES[TYPES.index(tensor["datatype"])]
        convert = {"f": float, "b": bool}.get(dtype.kind, int)  # strings hold what a double can't
        outputs[tensor["name"]] = np.array([convert(x) for x in tensor["data"]], dtype).reshape(tensor["shape"])
    return body["model_name"], body["model_version"], outputs


def _elements(array: Array) -> Iterator[str]:
    kind, is_single = array.dtype.kind, array.dtype.itemsize == 4
    for value in array.ravel().tolist():
        if kind == "b":
            yield "true" if value else "false"
        elif kind != "f":
            yield str(value) if abs(value) < 2**53 else f'"{value}"'
        elif math.isfinite(value):
            yield number_text(_shortest(value) if is_single else value)
        else:
            yield '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _shortest(value: float) -> float:
    """Find the number with the fewest digits (at least six) that rounds to this float32: 0.1 is sent as 0.1."""
    rounded = (float(f"{value:.{digits}e}") for digits in range(5, 9))
    return next((short for short in rounded if struct.pack("<f", short) == struct.pack("<f", value)), value)


def number_text(value: float) -> str:
    """Write a number as JavaScript does."""
    value = float(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    return f"{Decimal(text):f}" if "e-" in text and abs(value) >= 1e-6 else text.replace("e-0", "e-")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
