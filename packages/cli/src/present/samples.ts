/**
 * `tutti load --sample dir`: real inputs for measuring a model, since some models' run times depend on their inputs.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { toWire } from "@tutti/client";
import { initialState } from "@tutti/onnx-tools";
import { encodeTensors } from "@tutti/wire";
import { CommandError, fileProblem } from "@tutti/admin";
import { type Readable, readInput } from "./input-file.ts";

/** Maximum number of samples: enough to fill a batch with different ones. More would only take up room in the store. */
const SAMPLES_MAX = 256;

/**
 * Reads each sample as one binary tensor message.
 * @throws {CommandError | TuttiError} naming the unreadable file
 */
export async function readSamples(folder: string, spec: Readable): Promise<Uint8Array[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`--sample ${folder}: ${fileProblem(error)}`);
  });
  const samples: Uint8Array[] = [];
  for (const name of entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith("."))
    .map((entry) => entry.name)
    .sort()) {
    const input = await readInput(join(folder, name), spec);
    if (input.kind === "one") {
      samples.push(encodeTensors(Object.entries(input.inputs).map(([tensor, value]) => toWire(tensor, value))));
    } else {
      const state = initialState(input.audio);
      for (const frame of input.frames) samples.push(encodeTensors([toWire(input.audio.tensor, frame), state]));
    }
    if (samples.length > SAMPLES_MAX) return samples.slice(0, SAMPLES_MAX);
  }
  if (samples.length === 0) throw new CommandError(`--sample ${folder}: no files are in it`);
  return samples;
}
