/** Two pipelines of the same stages and models, one with each split, and what the cluster knows of their stages. */
import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { readPipelines } from "@tutti/host/pipelines";
import { demoModel, demoModelPath } from "@tutti/onnx-tools";
import { OCR_PIPELINE_FOLDER } from "@tutti/pipeline-ocr/folder";
import type { StatusEvent } from "../system/running-system.ts";

export const SPLITS = ["planned", "even"] as const;
export type Split = (typeof SPLITS)[number];
export const pipelineNamed = (split: Split): string => `ocr-${split}`;
const MAIN = join(import.meta.dirname, "../../../packages/cli/src/main.ts");
const MODELS = ["ocr-det", "ocr-cls", "ocr-rec"];

export interface Home {
  readonly models: string;
  readonly pipelines: string;
  remove(): Promise<void>;
}

/** A repository of the demo's three models, and a folder of both pipelines. */
export async function writeHome(sloMs: number): Promise<Home> {
  const folder = await mkdtemp(join(tmpdir(), "tutti-ocr-split-"));
  const [models, pipelines] = [join(folder, "models"), join(folder, "pipelines")];
  for (const name of MODELS) {
    const model = demoModel(name);
    await mkdir(join(models, name, "1"), { recursive: true });
    await copyFile(demoModelPath(model, { cacheDir: folder }), join(models, name, "1/model.onnx"));
    // Only pipelines ask these models, each request with a deadline of its own.
    await writeFile(join(models, name, "config.yaml"), JSON.stringify({ ...model.config, slo: `${sloMs}ms` }));
  }
  await mkdir(join(pipelines, "src"), { recursive: true });
  // Functions must lie beside the declarations.
  const steps = pathToFileURL(join(OCR_PIPELINE_FOLDER, "src/steps.ts")).href;
  await writeFile(join(pipelines, "src/steps.ts"), `export * from ${JSON.stringify(steps)};\n`);
  const [shipped] = await readPipelines(OCR_PIPELINE_FOLDER);
  const stages = shipped!.stages.map(({ name, model, after, before }) => ({
    ...{ name, model, before: refOf(before) },
    ...(after.length > 0 && { after }),
  }));
  for (const split of SPLITS) {
    const own = { name: pipelineNamed(split), slo: `${sloMs}ms`, split, stages, finish: refOf(shipped!.finish) };
    await writeFile(join(pipelines, `${own.name}.yaml`), JSON.stringify(own));
  }
  return { models, pipelines, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** A reference as `./src/steps.ts#toText`, wherever its file was read. */
const refOf = (reference: string): string => `./src/steps.ts#${reference.split("#")[1]!}`;

export interface StageShown {
  readonly pipeline: string;
  readonly stage: string;
  readonly requests: number;
  /** When it has to have ended, from the arrival, functions left out. */
  readonly untilMs: number;
  /** Latency of its model at batch size 1. */
  readonly aloneMs: number;
}

/**
 * Requests of each model per request of the detector, counted over the batches that ran. Buckets of a model
 * (`ocr-rec@W=160`) are added up.
 */
export function requestsByModel(during: readonly Pick<StatusEvent, "threads">[]): Record<string, number> {
  const items = new Map<string, number>();
  for (const { threads } of during)
    for (const thread of threads) {
      const model = thread.name.split("@", 1)[0]!;
      items.set(model, (items.get(model) ?? 0) + thread.items);
    }
  const pictures = items.get("ocr-det") ?? 0;
  return pictures === 0 ? {} : Object.fromEntries([...items].map(([model, count]) => [model, count / pictures]));
}

/**
 * The stages with their shares of both SLOs, as `tutti pipelines` divides them by the live profiles.
 *
 * @param requests - mean number of each stage's requests for a picture, by its model
 */
export async function stagesOf(
  home: Home,
  url: string,
  requests: Readonly<Record<string, number>>,
): Promise<StageShown[]> {
  const fanOuts = Object.entries({ classify: requests["ocr-cls"], recognise: requests["ocr-rec"] });
  const flags = fanOuts.flatMap(([stage, count]) => (count === undefined ? [] : ["--fan-out", `${stage}=${count}`]));
  const args = [MAIN, "pipelines", home.pipelines, "--nats", url, "--json", ...flags];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  type Divided = { name: string; stages: { name: string; requests: number; untilUs: number; aloneUs?: number }[] };
  return (JSON.parse(stdout) as Divided[]).flatMap(({ name, stages }) =>
    stages.map((stage) => ({
      pipeline: name,
      stage: stage.name,
      requests: stage.requests,
      untilMs: stage.untilUs / 1000,
      aloneMs: (stage.aloneUs ?? Number.NaN) / 1000,
    })),
  );
}

/**
 * l(b)/b over l(1), by model and bucket. It is the cost of a request in the largest profiled batch relative to batch
 * size 1.
 */
export async function gainsOf(url: string): Promise<Gain[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, "models", "--nats", url, "--json"]);
  type Listed = { name: string; profiles: { batchSize: number; latency: number }[][] };
  return (JSON.parse(stdout) as Listed[]).flatMap(({ name, profiles }) =>
    profiles.flatMap((points, bucket): Gain[] => {
      const [first, last] = [points[0], points.at(-1)];
      if (first === undefined || last === undefined || last.batchSize === 1) return [];
      const share = last.latency / last.batchSize / (first.latency / first.batchSize);
      return [{ model: name, bucket, batchSize: last.batchSize, aloneMs: first.latency / 1000, share }];
    }),
  );
}

export interface Gain {
  readonly model: string;
  readonly bucket: number;
  readonly batchSize: number;
  readonly aloneMs: number;
  readonly share: number;
}
