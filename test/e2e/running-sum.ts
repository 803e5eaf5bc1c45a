/** A model with a state, for sequences. y = x + s, of which s2 is a copy, float32[batch, 4] all of them. */
import { onnxGraph } from "@tutti/onnx-tools";
import { TOKEN } from "./gateway-cluster.ts";

export const RUNNING_SUM = "running-sum";
const CONFIG = {
  ...{ slo: "10s", max_batch_size: 8 },
  preprocess: { audio: { input: "x", sample_rate: 8_000, frame: 4, state: { input: "s", output: "s2" } } },
};

function generateRunningSum(): Uint8Array {
  const { DataType, modelBytes, node, value } = onnxGraph;
  const row = (name: string) => value(name, DataType.FLOAT, ["batch", 4]);
  return modelBytes({
    name: RUNNING_SUM,
    inputs: [row("x"), row("s")],
    outputs: [row("y"), row("s2")],
    nodes: [node("Add", ["x", "s"], ["y"]), node("Identity", ["y"], ["s2"])],
    initializers: [],
  });
}

/** Resolves once it is served. @param http - of a gateway with TOKEN as its repository's */
export async function loadRunningSum(http: string): Promise<void> {
  const response = await fetch(`${http}/v2/repository/models/${RUNNING_SUM}/load`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify({
      parameters: {
        config: JSON.stringify(CONFIG),
        "file:1/model.onnx": Buffer.from(generateRunningSum()).toString("base64"),
      },
    }),
  });
  if (!response.ok) throw new Error(await response.text());
}
