"""The same model behind mosec, a batching server for Python: python mosec-server.py --port N, with MODEL, BATCH and WAIT_MS in the environment."""
import os

import numpy as np
import onnxruntime
from mosec import Server, Worker, get_logger

get_logger().setLevel("ERROR")


class Model(Worker):
    def __init__(self):
        super().__init__()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name
        self.output = self.session.get_outputs()[0].name

    def forward(self, data):
        rows = np.asarray([one["inputs"][0]["data"] for one in data], dtype=np.float32)
        answers = self.session.run(None, {self.name: rows})[0]
        return [
            {"outputs": [{"name": self.output, "datatype": "FP32", "shape": [1, len(row)], "data": row.tolist()}]}
            for row in answers
        ]


if __name__ == "__main__":
    server = Server()
    server.append_worker(
        Model, num=1, max_batch_size=int(os.environ.get("BATCH", "32")), max_wait_time=int(os.environ.get("WAIT_MS", "1"))
    )
    server.run()
