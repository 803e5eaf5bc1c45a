"""What the peers' servers share: their settings, the models they serve, and the forms of a request and an answer."""

import json
import os
import time

import numpy as np

SETTINGS = json.loads(os.environ["PEERS_SETTINGS"])
PORT = SETTINGS["port"]
# Workers of each model: accelerators where they are emulated, else one.
EXECUTORS = SETTINGS["executors"]
BATCH_MAX = SETTINGS["batchMax"]
WAIT_MS = SETTINGS["waitMs"]
MODELS = SETTINGS["models"]
DTYPES = {"FP32": np.float32, "INT64": np.int64}


class OnnxModel:
    """One session with one thread, as all systems here have it."""

    def __init__(self, spec):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(spec["file"], options, providers=["CPUExecutionProvider"])
        self.input = spec["input"]["name"]

    def run(self, rows):
        return self.session.run(None, {self.input: rows})[0]


class EmulatedModel:
    """Waits alphaMs * rows + betaMs; outputs repeat inputs."""

    def __init__(self, spec):
        self.alpha = spec["latency"]["alphaMs"] / 1e3
        self.beta = spec["latency"]["betaMs"] / 1e3

    def run(self, rows):
        end = time.perf_counter() + self.alpha * len(rows) + self.beta
        while (left := end - time.perf_counter()) > 0:
            time.sleep(left)
        return rows


def load(spec):
    return OnnxModel(spec) if "file" in spec else EmulatedModel(spec)


def dtype_of(spec):
    return DTYPES[spec["input"]["datatype"]]


def rows_of(spec, bodies):
    """The batch of parsed JSON bodies of the Open Inference Protocol."""
    rows = np.asarray([body["inputs"][0]["data"] for body in bodies], dtype=dtype_of(spec))
    return rows.reshape(len(bodies), *spec["input"]["shape"])


def raw_rows_of(spec, bodies):
    """The batch of bodies that are a tensor's bytes and nothing else."""
    rows = np.frombuffer(b"".join(bodies), dtype=dtype_of(spec))
    return rows.reshape(len(bodies), *spec["input"]["shape"])


def answer_of(spec, row):
    return {"outputs": [{"name": spec["output"], "datatype": "FP32", "shape": [1, len(row)], "data": row.tolist()}]}
