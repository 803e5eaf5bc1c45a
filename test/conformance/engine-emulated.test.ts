import { type Alarm, VirtualClock } from "@tutti/ports/clock";
import { NodeClock } from "@tutti/node/clock";
import { type AlarmClock, EmulatedEngine, type EngineModel, parseEmulatedProfiles } from "@tutti/ports/engine";
import type { Tensor } from "@tutti/protocol";
import { afterAll } from "vitest";
import { engineConformance } from "./engine.suite.ts";

const { models, latency } = parseEmulatedProfiles({
  models: [
    { name: "line", alphaMs: 0.1, betaMs: 0.5, batchMax: 8, sloMs: 25, outputs: [{ name: "y", dims: ["batch", 5] }] },
    {
      name: "stairs",
      latencyMs: [1, 1, 1, 1, 2, 2, 2, 2],
      sloMs: 40,
      inputs: [
        { name: "image", type: "UINT8", dims: ["batch", 2, 3] },
        { name: "scale", dims: ["batch", 1] },
      ],
      outputs: [{ name: "mirrored", type: "UINT8", dims: [3, "batch", 2] }],
    },
  ],
});
const modelOf = (index: number): EngineModel => {
  const spec = models[index];
  if (spec === undefined) throw new Error(`the document has no model ${index}`);
  return { spec: { ...spec, number: index + 1 }, bytes: undefined };
};

const BAD_BYTE = 255;

/** Every byte of an item is its number. */
function inputs(model: EngineModel, batchSize: number, first: number): Tensor[] {
  return model.spec.inputs.map(({ name, type, dims }) => {
    const whole = dims.map((dim) => (typeof dim === "number" ? dim : batchSize));
    const rowBytes = whole.slice(1).reduce((product, dim) => product * dim, type === "FP32" ? 4 : 1);
    const data = Uint8Array.from({ length: batchSize * rowBytes }, (_, i) => first + Math.floor(i / rowBytes));
    return { name, type, dims: whole, data };
  });
}
function poisoned(model: EngineModel, batchSize: number, bad: number): Tensor[] {
  const batch = inputs(model, batchSize, 0);
  for (const { data } of batch)
    data.fill(BAD_BYTE, (bad * data.length) / batchSize, ((bad + 1) * data.length) / batchSize);
  return batch;
}

function conformance(name: string, clock: AlarmClock): void {
  engineConformance(name, () => {
    const engine = new EmulatedEngine({
      clock,
      latency,
      fault: ({ batchSize, inputs: [image] }) => {
        const rowBytes = (image?.data.length ?? 0) / batchSize;
        const rows = Array.from({ length: batchSize }, (_, row) => row);
        const bad = rows.filter((row) => image?.data[row * rowBytes] === BAD_BYTE);
        return { kind: "rows", failedRows: bad.map((row) => ({ row, reason: "poisoned by its test" })) };
      },
    });
    const line = modelOf(0);
    const unloadable = { ...line, spec: { ...line.spec, name: "unprofiled" } };
    return Promise.resolve({ engine, models: [line, modelOf(1)], unloadable, inputs, poisoned });
  });
}

/** Moves virtual time to the next due alarm whenever the suite's own promises have settled. */
class SelfMovingClock extends VirtualClock {
  #moving = false;
  override alarm(fire: () => void): Alarm {
    const alarm = super.alarm(fire);
    return { set: (at) => (alarm.set(at), this.#moveSoon()), clear: () => alarm.clear() };
  }
  #moveSoon(): void {
    if (this.#moving) return;
    this.#moving = true;
    setImmediate(() => {
      this.#moving = false;
      if (this.nextAt < Infinity) {
        this.advanceTo(this.nextAt);
        this.#moveSoon();
      }
    });
  }
}

conformance("emulated, virtual time", new SelfMovingClock());

const nodeClock = new NodeClock();
afterAll(() => nodeClock.close());
conformance("emulated, real time", nodeClock);
