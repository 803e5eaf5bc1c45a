"""The models behind LitServe: an API for each, at /v2/models/<name>/infer."""

import numpy as np
from fastapi import Request
from litserve import LitAPI, LitServer

from served import BATCH_MAX, EXECUTORS, MODELS, PORT, WAIT_MS, answer_of, dtype_of, load


class Model(LitAPI):
    def __init__(self, spec):
        path = f"/v2/models/{spec['name']}/infer"
        super().__init__(max_batch_size=BATCH_MAX, batch_timeout=WAIT_MS / 1e3, api_path=path)
        self.served = spec

    def setup(self, device):
        self.model = load(self.served)

    def decode_request(self, request: Request):
        row = np.asarray(request["inputs"][0]["data"], dtype=dtype_of(self.served))
        return row.reshape(self.served["input"]["shape"])

    def batch(self, inputs):
        return np.stack(inputs)

    def predict(self, rows):
        return self.model.run(rows)

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return answer_of(self.served, output)


if __name__ == "__main__":
    server = LitServer(
        [Model(spec) for spec in MODELS], accelerator="cpu", devices=1, workers_per_device=EXECUTORS, fast_queue=True
    )
    server.run(host="127.0.0.1", port=PORT, log_level="error", generate_client_file=False, access_log=False)
