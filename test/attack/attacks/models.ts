/** Attacks by models that an operator was persuaded to load: they read files, or never end. */
import { onnxGraph } from "@tutti/onnx-tools";
import type { Attack, Scene } from "../attack.ts";
import { type HttpReply, ask, pause } from "../clients/http.ts";
import { LEAK_PLACES, WIDTH, leakModel } from "../leak-model.ts";

/** A file in the directory that executors were started in. */
const FILE = "package.json";
const X = { name: "x", datatype: "FP32", shape: [1, WIDTH], data: new Array<number>(WIDTH).fill(0) };

function load(scene: Scene, name: string, bytes: Uint8Array, timeoutMs = 20_000): Promise<HttpReply> {
  const file = Buffer.from(bytes).toString("base64");
  const config = JSON.stringify({ slo: "10s", max_batch_size: 1 });
  return ask(`${scene.http}/v2/repository/models/${name}/load`, {
    body: JSON.stringify({ parameters: { "file:1/model.onnx": file, config } }),
    headers: authorizationOf(scene),
    timeoutMs,
  });
}

const authorizationOf = ({ adminToken }: Scene): Record<string, string> => ({
  authorization: `Bearer ${adminToken}`,
});
const unload = (scene: Scene, name: string): Promise<unknown> =>
  ask(`${scene.http}/v2/repository/models/${name}/unload`, { body: "{}", headers: authorizationOf(scene) });
const infer = (scene: Scene, name: string, timeoutMs = 5_000) =>
  ask(`${scene.http}/v2/models/${name}/infer`, {
    body: JSON.stringify({ inputs: [X] }),
    headers: { "tutti-app": "a", "tutti-slo": "3s" },
    timeoutMs,
  });

const externalData: Attack = {
  name: "external-data",
  what: `models whose tensors lie in ${FILE}: in an initializer, a constant, a branch, a function, a sparse tensor`,
  system: "open",
  async run(scene) {
    const broken: string[] = [];
    for (const place of LEAK_PLACES) {
      // The same model with its data in its own file loads, which shows that the refusal is for the other file.
      if (scene.size === "long" || place === "constant") {
        const harmless = await load(scene, `harmless-${place}`, leakModel({ place, location: undefined }));
        const { status, text } = await infer(scene, `harmless-${place}`);
        if (harmless.status !== 200 || status !== 200)
          throw new Error(`a harmless model (${place}) is not served: ${harmless.text}${text}`);
        await unload(scene, `harmless-${place}`);
      }
      const name = `leak-${place}`;
      const { status } = await load(scene, name, leakModel({ place, location: FILE }));
      if (status < 400 || status >= 500)
        broken.push(`a model with external data (${place}) was answered with ${status}`);
      if (status !== 200) continue;
      const { text } = await infer(scene, name);
      const read = (JSON.parse(text) as { readonly outputs?: readonly { readonly data: readonly number[] }[] }).outputs;
      if (read !== undefined) broken.push(`it read ${JSON.stringify(String.fromCharCode(...(read[0]?.data ?? [])))}`);
      await unload(scene, name);
    }
    return broken;
  },
};

/**
 * A loop of as many iterations as an integer can count, none of which can be left out. Its x and y are f32[batch,
 * WIDTH].
 */
function endlessModel(): Uint8Array {
  const { DataType, booleans, floats, graph, integers, modelBytes, node, value } = onnxGraph;
  const state = (name: string) => value(name, DataType.FLOAT, ["batch", WIDTH]);
  const body = graph({
    name: "turn",
    inputs: [value("i", DataType.INT64, []), value("go", DataType.BOOL, []), state("state")],
    outputs: [value("go_on", DataType.BOOL, []), state("next")],
    nodes: [
      node("Identity", ["go"], ["go_on"]),
      node("MatMul", ["state", "w"], ["turned"]),
      node("Tanh", ["turned"], ["next"]),
    ],
  });
  return modelBytes({
    name: "endless",
    inputs: [state("x")],
    outputs: [state("y")],
    nodes: [node("Loop", ["turns", "yes", "x"], ["y"], { body })],
    initializers: [
      floats("w", [WIDTH, WIDTH], new Float32Array(WIDTH * WIDTH).fill(0.1)),
      integers("turns", [], [2n ** 62n]),
      booleans("yes", [], [true]),
    ],
  });
}

/** Time until the model is quarantined as endless: one run on a CPU, and a restart. */
const QUARANTINE_MS = 60_000;

const endless: Attack = {
  name: "endless-model",
  what: "a model that never ends, beside a second executor",
  system: "open",
  async run(scene) {
    // Without given latencies the model is measured, and that is its first run.
    const config = JSON.stringify({ slo: "500ms" });
    const parameters = { "file:1/model.onnx": Buffer.from(endlessModel()).toString("base64"), config };
    const body = JSON.stringify({ parameters });
    await ask(`${scene.http}/v2/repository/models/endless/load`, {
      body,
      headers: authorizationOf(scene),
      timeoutMs: scene.of(4_000, QUARANTINE_MS),
    });
    const { status, text } = await infer(scene, "endless");
    const broken = status >= 400 && status < 600 ? [] : [`a request for it was answered with ${status}: ${text}`];
    if (scene.size === "long" && !/too long|quarantined/.test(text))
      broken.push(`its refusal names no reason: ${text}`);
    await unload(scene, "endless");
    await pause(scene.of(500, 5_000));
    return broken;
  },
};

export const modelAttacks: readonly Attack[] = [externalData];
/** These run last, since they block an executor for a while. */
export const endlessAttacks: readonly Attack[] = [endless];
