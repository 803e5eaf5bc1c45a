/**
 * Models that try to read files of their executor's process, in the real engine. None of them is loaded, even if it was
 * written into the store directly.
 */
import type { Engine, LoadOutcome } from "@tutti/ports/engine";
import { openTrial, startOnnxEngine } from "@tutti/engine-onnx";
import { LEAK_PLACES, completeSpec, describeModel, draftModel, generateLeak, sha256Of } from "@tutti/onnx-tools";
import { afterAll, beforeAll, expect, test } from "vitest";

let engine: Engine;
beforeAll(async () => {
  engine = await startOnnxEngine();
});
afterAll(() => new Promise<void>((stopped) => engine.stop(stopped)));

/** Loads a model as an attacker stores it, with a handwritten spec. */
function load(name: string, harmless: Uint8Array, bytes: Uint8Array): Promise<LoadOutcome> {
  const draft = draftModel({ name, slo: "50ms" }, describeModel(harmless));
  const spec = completeSpec(
    { ...draft, sha256: sha256Of(bytes), bytes: bytes.byteLength },
    { number: 1, object: name },
  );
  return new Promise((done) => engine.load({ spec, bytes }, done));
}

// The file is there: tests run in the repository's root, and so does a process without a working directory of its own.
test.each(LEAK_PLACES)("a tensor that lies in another file: %s", async (place) => {
  const harmless = generateLeak({ place });
  for (const location of ["package.json", "./package.json", "*/_ORT_MEM_ADDR_/*"]) {
    const leak = generateLeak({ place, location });
    expect(await load(place, harmless, leak)).toMatchObject({
      kind: "failed",
      reason: expect.stringMatching(/^tensor 'bytes' lies outside the file/),
    });
    await expect(openTrial(leak)).rejects.toThrow(/lies outside the file/);
  }
});

test.each(LEAK_PLACES.filter((place) => place !== "training"))(
  "the same with its data in the file is served: %s",
  async (place) => {
    const harmless = generateLeak({ place });
    expect(await load(place, harmless, harmless)).toMatchObject({ kind: "loaded" });
    const trial = await openTrial(harmless);
    const x = { name: "x", type: "FP32", dims: [1, 8], data: new Uint8Array(32) } as const;
    const [y] = await trial.run([x]);
    expect([...new Float32Array(Uint8Array.from(y!.data).buffer)]).toEqual(new Array(8).fill(7));
    await trial.release();
  },
);
