"""The models behind Ray Serve: a deployment for each, at /v2/models/<name>/infer, batched by serve.batch. JSON by orjson."""

import asyncio
import signal

import orjson
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from served import BATCH_MAX, EXECUTORS, MODELS, PORT, SETTINGS, WAIT_MS, answer_of, load, raw_rows_of, rows_of

ALWAYS = {"num_cpus": 0}  # Ray counts processors only to place actors: here all of them share the machine.


@serve.deployment(num_replicas=EXECUTORS, max_ongoing_requests=4096, ray_actor_options=ALWAYS)
class Model:
    def __init__(self, spec):
        self.spec = spec
        self.model = load(spec)

    @serve.batch(max_batch_size=BATCH_MAX, batch_wait_timeout_s=WAIT_MS / 1e3)
    async def infer(self, bodies):
        # On a thread, so that the next batch gathers meanwhile.
        return await asyncio.get_running_loop().run_in_executor(None, self.answers, bodies)

    def answers(self, bodies):
        if SETTINGS["isBinary"]:
            return [row.tobytes() for row in self.model.run(raw_rows_of(self.spec, bodies))]
        rows = rows_of(self.spec, [orjson.loads(body) for body in bodies])
        return [orjson.dumps(answer_of(self.spec, row)) for row in self.model.run(rows)]

    async def __call__(self, request: Request):
        kind = "application/octet-stream" if SETTINGS["isBinary"] else "application/json"
        return Response(await self.infer(await request.body()), media_type=kind)


if __name__ == "__main__":
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", num_cpus=2)
    serve.start(http_options={"host": "127.0.0.1", "port": PORT}, logging_config={"enable_access_log": False})
    for spec in MODELS:
        name = spec["name"]
        serve.run(Model.options(name=name).bind(spec), name=name, route_prefix=f"/v2/models/{name}/infer")
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    serve.shutdown()
    ray.shutdown()
