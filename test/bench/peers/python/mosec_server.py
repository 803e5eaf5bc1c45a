"""The models behind mosec: a route for each, at /v2/models/<name>/infer. JSON by orjson; raw tensors where the workload is binary."""

import sys

import orjson
from mosec import Runtime, Server, Worker, get_logger

from served import BATCH_MAX, EXECUTORS, MODELS, PORT, SETTINGS, WAIT_MS, answer_of, load, raw_rows_of, rows_of

get_logger().setLevel("ERROR")


class JsonModel(Worker):
    spec = None

    def __init__(self):
        super().__init__()
        self.model = load(self.spec)

    def deserialize(self, data):
        return orjson.loads(data)

    def serialize(self, data):
        return orjson.dumps(data)

    def forward(self, data):
        return [answer_of(self.spec, row) for row in self.model.run(rows_of(self.spec, data))]


class RawModel(JsonModel):
    resp_mime_type = "application/octet-stream"

    def deserialize(self, data):
        return data

    def serialize(self, data):
        return data

    def forward(self, data):
        return [row.tobytes() for row in self.model.run(raw_rows_of(self.spec, data))]


# A class for each model, where the processes that mosec spawns find it by its name.
WORKERS = {}
for each in MODELS:
    class_name = f"Worker_{each['name']}"
    made = type(class_name, (RawModel if SETTINGS["isBinary"] else JsonModel,), {"spec": each, "__module__": __name__})
    WORKERS[each["name"]] = globals()[class_name] = made


if __name__ == "__main__":
    # A wait of 0 is given by the flag alone: the runtime takes the flag's value instead of 0.
    sys.argv += ["--address", "127.0.0.1", "--port", str(PORT), "--wait", str(WAIT_MS), "--capacity", "8192"]
    server = Server()
    server.register_runtime(
        {
            f"/v2/models/{spec['name']}/infer": [
                Runtime(WORKERS[spec["name"]], num=EXECUTORS, max_batch_size=BATCH_MAX, max_wait_time=WAIT_MS)
            ]
            for spec in MODELS
        }
    )
    server.run()
