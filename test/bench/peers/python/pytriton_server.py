"""The models behind NVIDIA's Triton by PyTriton, over Triton's own HTTP, in JSON and binary tensors."""

import os
import sysconfig

from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

from served import BATCH_MAX, EXECUTORS, MODELS, PORT, SETTINGS, WAIT_MS, dtype_of, load


# Triton's own Python processes load libpython by its name: it has to be this interpreter's, whose standard library they use.
os.environ["LD_LIBRARY_PATH"] = f"{sysconfig.get_config_var('LIBDIR')}:{os.environ.get('LD_LIBRARY_PATH', '')}"


def infer_of(spec):
    model = load(spec)
    name, output = spec["input"]["name"], spec["output"]

    @batch
    def infer(**inputs):
        return {output: model.run(inputs[name])}

    return infer


if __name__ == "__main__":
    config = TritonConfig(
        http_address="127.0.0.1", http_port=PORT, allow_grpc=False, allow_metrics=False, log_verbose=0
    )
    with Triton(config=config, workspace=os.path.join(SETTINGS["workspace"], "triton")) as triton:
        for spec in MODELS:
            triton.bind(
                model_name=spec["name"],
                infer_func=[infer_of(spec) for _ in range(EXECUTORS)],
                inputs=[Tensor(name=spec["input"]["name"], dtype=dtype_of(spec), shape=tuple(spec["input"]["shape"]))],
                outputs=[Tensor(name=spec["output"], dtype=dtype_of({"input": {"datatype": "FP32"}}), shape=(-1,))],
                config=ModelConfig(
                    max_batch_size=BATCH_MAX, batcher=DynamicBatcher(max_queue_delay_microseconds=1000 * WAIT_MS)
                ),
                strict=False,
            )
        triton.serve()
