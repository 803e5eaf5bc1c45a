import type { Tensor } from "@tutti/protocol";
import ort from "./onnxruntime.ts";
import { checkSelfContained } from "./load-refusal.ts";
import { sessionOptions } from "./provider.ts";
import { fromOrt, toOrt } from "./tensor-types.ts";

/** Runs a file by itself, for tools that inspect models: no spec, no worker, no checks. */
export interface Trial {
  /** Blocks the calling thread. @param feeds - each input by its name; unknown ones are left out */
  run(feeds: readonly Tensor[]): Promise<readonly Tensor[]>;
  release(): Promise<void>;
}

/**
 * Opens a file on the CPU, with one thread. @throws {LoadRefusal} a tensor lies outside the file @throws onnxruntime's
 * errors
 */
export async function openTrial(bytes: Uint8Array): Promise<Trial> {
  checkSelfContained(bytes);
  const session = await ort.InferenceSession.create(
    bytes,
    sessionOptions({ provider: "cpu", threads: 1, device: 0 }, bytes),
  );
  return {
    run: async (feeds) => {
      const taken = feeds.filter(({ name }) => session.inputNames.includes(name));
      const results = await session.run(
        Object.fromEntries(taken.map((tensor) => [tensor.name, toOrt(tensor)])),
        [...session.outputNames],
        { logSeverityLevel: 4 },
      );
      return session.outputNames.map((name) => fromOrt(name, results[name] as ort.Tensor));
    },
    release: () => session.release(),
  };
}
