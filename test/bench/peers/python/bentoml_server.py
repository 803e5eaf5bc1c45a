"""
The models behind BentoML: an API for each, at /<name>, that takes {"rows": [[...]]} and answers with rows, batched by BentoML.
A service process is an executor: `bentoml.api(batchable=True)` batches within a process.
"""

from typing import Annotated

import bentoml
import numpy as np
from bentoml.validators import DType, Shape

from served import BATCH_MAX, EXECUTORS, MODELS, PORT, SETTINGS, load

Floats = Annotated[np.ndarray, DType("float32")]


def api_of(spec):
    name = spec["name"]
    dtype = "int64" if spec["input"]["datatype"] == "INT64" else "float32"
    Rows = Annotated[np.ndarray, DType(dtype), Shape((-1, *spec["input"]["shape"]))]

    def infer(self, rows: Rows) -> Floats:
        return self.models[name].run(np.ascontiguousarray(rows))

    infer.__name__ = name
    # BentoML has no least wait; what is tuned is how long it believes that a batch may take.
    return bentoml.api(
        infer, route=f"/{name}", batchable=True, max_batch_size=BATCH_MAX, max_latency_ms=SETTINGS["latencyMaxMs"]
    )


class Served:
    def __init__(self):
        self.models = {spec["name"]: load(spec) for spec in MODELS}


for each in MODELS:
    setattr(Served, each["name"], api_of(each))

Peer = bentoml.service(Served, workers=EXECUTORS, traffic={"timeout": 30}, logging={"access": {"enabled": False}})

if __name__ == "__main__":
    bentoml.serve("bentoml_server:Peer", host="127.0.0.1", port=PORT, blocking=True)
