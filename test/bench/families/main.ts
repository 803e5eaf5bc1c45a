/**
 * Compares variants of one model as a family and one by one, on one executor's engine. It measures requests a second
 * within an SLO and memory, and checks whether they answer the same.
 *
 *   npm run bench:families -- [--json] [--variants 1,2,5,10] [--models mlp,rec]
 *
 * mlp: 512-2048-2048-2048-128, 39 MB. rec: the OCR recogniser, 80 pixels wide, 10.8 MB. Variants differ in the weights
 * of their last layer.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DesiredModel } from "@tutti/client/registries";
import { type FamilyMember, makeFamily } from "@tutti/admin/families";
import {
  type ModelConfig,
  demoModel,
  demoModelPath,
  describeModel,
  draftModel,
  generateMlp,
  withOtherHead,
} from "@tutti/onnx-tools";
import type { Measured, MeasuredWork } from "./measured-process.ts";
import { readArguments } from "../arguments.ts";

const USAGE = "npm run bench:families -- [--json] [--variants 1,2,5,10] [--models mlp,rec]\n";
const values = readArguments(USAGE, {
  json: { type: "boolean", default: false },
  variants: { type: "string", default: "1,2,5,10" },
  models: { type: "string", default: "mlp,rec" },
});

interface Workload {
  readonly name: string;
  readonly sloMs: number;
  readonly config: ModelConfig;
  readonly original: () => Uint8Array;
}

const folder = mkdtempSync(join(tmpdir(), "tutti-bench-families-"));
const WORKLOADS: readonly Workload[] = [
  {
    name: "mlp",
    sloMs: 100,
    config: { max_batch_size: 64 },
    original: () => generateMlp({ seed: 7, widths: [512, 2048, 2048, 2048, 128] }),
  },
  {
    name: "rec",
    sloMs: 400,
    config: { ...demoModel("ocr-rec").config, max_batch_size: 16, axes: { W: { sizes: [80], mixed: true } } },
    original: () => new Uint8Array(readFileSync(demoModelPath(demoModel("ocr-rec"), { cacheDir: folder }))),
  },
];

interface Row {
  readonly model: string;
  readonly variants: number;
  readonly separate: Measured;
  readonly family: Measured | undefined;
  /**
   * Largest difference of an output, as a share of its largest value; undefined for one variant, which is no family.
   */
  readonly difference: number | undefined;
  /** Bytes of weights. */
  readonly weights: { readonly separate: number; readonly family: number | undefined };
}

const rows: Row[] = [];
try {
  for (const workload of WORKLOADS.filter(({ name }) => values.models.split(",").includes(name))) {
    const original = workload.original();
    for (const count of values.variants.split(",").map(Number)) {
      const row = await measured(workload, original, count);
      rows.push(row);
      if (!values.json) process.stdout.write(`${textOf(row)}\n`);
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
if (values.json) process.stdout.write(`${JSON.stringify(rows)}\n`);

async function measured({ name, sloMs, config }: Workload, original: Uint8Array, count: number): Promise<Row> {
  const members = Array.from({ length: count }, (_, i): FamilyMember => {
    const bytes = withOtherHead(original, i + 1);
    const {
      sha256: _hash,
      bytes: _size,
      ...model
    } = draftModel({ ...config, name: `${name}-${i}`, slo: `${sloMs}ms` }, describeModel(bytes));
    return { model, bytes };
  });
  const made = count < 2 ? undefined : await makeFamily({ name, members });
  const separate = inOwnProcess({ sloMs, models: members.map((member, i) => stored(member.model, member.bytes, i)) });
  const family =
    made === undefined ? undefined : inOwnProcess({ sloMs, models: [stored(made.model, made.bytes, count)] });
  return {
    ...{ model: name, variants: count, separate, family, difference: made?.difference },
    weights: {
      separate: members.reduce((sum, { bytes }) => sum + bytes.byteLength, 0),
      family: made?.bytes.byteLength,
    },
  };
}

function stored(model: DesiredModel, bytes: Uint8Array, index: number): MeasuredWork["models"][number] {
  const path = join(folder, `${index}.onnx`);
  writeFileSync(path, bytes);
  return { model, path };
}

/** Measures in a process of its own, since a process never quite gives back its memory. */
function inOwnProcess(work: MeasuredWork): Measured {
  const file = join(import.meta.dirname, "measured-process.ts");
  const { stdout, stderr, status } = spawnSync(process.execPath, [file], {
    input: JSON.stringify(work),
    maxBuffer: 2 ** 26,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`the measured process ended with ${status}: ${stderr}`);
  return JSON.parse(stdout) as Measured;
}

function textOf({ model, variants, separate, family, difference }: Row): string {
  const one = ({ requestsPerSecond, batchSize, cycleMs, memoryMb }: Measured): string =>
    `${requestsPerSecond.toFixed(0)} r/s (batches of ${batchSize}, a round of ${cycleMs.toFixed(1)} ms), ${memoryMb.toFixed(0)} MB`;
  if (family === undefined) return `${model} × ${variants}: ${one(separate)}`;
  const gain =
    separate.requestsPerSecond > 0 ? (family.requestsPerSecond / separate.requestsPerSecond).toFixed(2) : "∞";
  return `${model} × ${variants}: one by one ${one(separate)}; as a family ${one(family)}: × ${gain}; outputs ${difference!.toPrecision(2)} apart`;
}
