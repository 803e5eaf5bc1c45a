/** Models of the bare server: an ONNX session, or a wait that emulates one. */
import { NodeClock } from "@tutti/node/clock";
import { after, micros } from "@tutti/units";
import { InferenceSession, Tensor } from "onnxruntime-node";
import type { ServedModel } from "./served-models.ts";

/** Numbers of JSON, or raw bytes. */
export type Row = readonly number[] | Buffer;

export interface BareModel {
  readonly output: string;
  run(rows: readonly Row[]): Promise<readonly Float32Array[]>;
}

export async function loadBareModel(spec: ServedModel): Promise<BareModel> {
  return spec.file === undefined ? emulated(spec) : await computed(spec, spec.file);
}

async function computed({ input, output }: ServedModel, file: string): Promise<BareModel> {
  const session = await InferenceSession.create(file, { intraOpNumThreads: 1, interOpNumThreads: 1 });
  return {
    output,
    run: async (rows) => {
      const dims = [rows.length, ...input.shape];
      const tensor =
        input.datatype === "INT64"
          ? new Tensor("int64", fill(new BigInt64Array(product(dims)), rows, BigInt), dims)
          : new Tensor("float32", fill(new Float32Array(product(dims)), rows, Number), dims);
      const all = (await session.run({ [input.name]: tensor }))[output]!.data as Float32Array;
      const width = all.length / rows.length;
      return rows.map((_, i) => all.subarray(i * width, (i + 1) * width));
    },
  };
}

function emulated({ output, latency }: ServedModel): BareModel {
  const { alphaMs = 0, betaMs = 0 } = latency ?? {};
  const clock = new NodeClock();
  return {
    output,
    run: (rows) =>
      new Promise((resolve) => {
        const wait = micros(Math.round(1_000 * (alphaMs * rows.length + betaMs)));
        clock.alarm(() => resolve(rows.map(floatsOf))).set(after(clock.now(), wait));
      }),
  };
}

const floatsOf = (row: Row): Float32Array =>
  row instanceof Buffer
    ? new Float32Array(row.buffer.slice(row.byteOffset, row.byteOffset + row.byteLength))
    : Float32Array.from(row);

interface Numbers<T> {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly length: number;
  readonly BYTES_PER_ELEMENT: number;
  [index: number]: T;
}

function fill<T, A extends Numbers<T>>(array: A, rows: readonly Row[], of: (value: number) => T): A {
  const width = array.length / rows.length;
  const bytes = new Uint8Array(array.buffer, array.byteOffset);
  rows.forEach((row, i) => {
    if (row instanceof Buffer) bytes.set(row, i * width * array.BYTES_PER_ELEMENT);
    else for (let k = 0; k < width; k++) array[i * width + k] = of(row[k]!);
  });
  return array;
}

const product = (dims: readonly number[]): number => dims.reduce((all, size) => all * size, 1);
