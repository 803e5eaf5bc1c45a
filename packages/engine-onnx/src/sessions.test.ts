import type ort from "onnxruntime-node";
import { expect, test } from "vitest";
import { type SessionSource, Sessions, runSizesOfModel } from "./sessions.ts";

const cuda = { provider: "cuda", threads: 1, device: 0 } as const;
const convolutional = Uint8Array.from(Buffer.from("…\x22\x04Conv…"));
const others = Uint8Array.from(Buffer.from("…\x22\x06MatMul…"));

/** Sessions that are numbers, and what became of them. */
async function scene(source: Pick<SessionSource, "bytes" | "settings">) {
  let made = 0;
  const released: number[] = [];
  const create = async (): Promise<ort.InferenceSession> => {
    const id = ++made;
    return { id, release: async () => void released.push(id) } as unknown as ort.InferenceSession;
  };
  const sessions = await Sessions.create({ ...source, batchSizeMax: 16, create });
  const idOf = async (batchSize: number): Promise<number> =>
    ((await sessions.of(sessions.rowsOf(batchSize))) as unknown as { id: number }).id;
  return { sessions, idOf, released };
}

test("convolutions on CUDA run in few sizes, each in a session of its own", async () => {
  const { sessions, idOf, released } = await scene({ bytes: convolutional, settings: cuda });
  expect([3, 9, 11, 16].map((batchSize) => sessions.rowsOf(batchSize))).toEqual([3, 10, 12, 16]);
  expect([await idOf(3), await idOf(9), await idOf(10), await idOf(3), await idOf(16)]).toEqual([1, 2, 2, 1, 3]);
  await sessions.release();
  expect(released).toEqual([1, 2, 3]);
  expect(runSizesOfModel(cuda, { bytes: convolutional, batchSizeMax: 10 })).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10]);
});

test("any other model, and any on another provider, runs every size in one session", async () => {
  for (const source of [
    { bytes: others, settings: cuda },
    { bytes: convolutional, settings: { ...cuda, provider: "cpu" as const } },
    { bytes: convolutional, settings: { ...cuda, provider: "webgpu" as const } },
  ]) {
    const { sessions, idOf, released } = await scene(source);
    expect([sessions.rowsOf(11), await idOf(3), await idOf(11)]).toEqual([11, 1, 1]);
    await sessions.release();
    expect(released).toEqual([1]);
    expect(runSizesOfModel(source.settings, { bytes: source.bytes, batchSizeMax: 16 })).toBeUndefined();
  }
});
