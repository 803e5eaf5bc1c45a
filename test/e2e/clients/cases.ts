/**
 * Requests that the clients of all languages make alike: what each is given, what an ingress answers, and what must
 * come of it. The table travels to clients of other languages as JSON.
 */
import { DATA_TYPES, type DataType, ERROR_STATUS, bytesOf, isRetryable } from "@tutti/protocol";
import { bytesFromJson } from "@tutti/wire";
import fc from "fast-check";

export interface CaseTensor {
  readonly datatype: DataType;
  readonly shape: readonly number[];
  /** The elements' bytes, in base64. */
  readonly bytes: string;
}

export interface CaseOptions {
  readonly app?: string;
  readonly slo?: string | number;
  readonly costs?: readonly { readonly after: string | number; readonly cost: number }[];
  readonly coldStart?: string | number;
  readonly outputs?: readonly string[];
  readonly retries?: number;
  readonly within?: string | number;
  readonly form?: "binary" | "json";
  readonly version?: string;
  readonly priority?: number;
  readonly size?: number;
  readonly id?: string;
  readonly traceparent?: string;
}

/** The scripted ingress' answer to one attempt. It echoes inputs by default. */
export type Answer =
  | "echo"
  | "silence"
  | { readonly raw: string }
  /** An echo, so much later. */
  | { readonly afterMs: number }
  | {
      readonly code: string;
      readonly error: string;
      readonly retryable?: boolean;
      readonly retryAfterMs?: number;
    };

export interface ClientCase {
  readonly name: string;
  readonly model: string;
  readonly inputs: Readonly<Record<string, CaseTensor>>;
  readonly options: CaseOptions;
  /** The scripted ingress' answers, by attempt. */
  readonly answers?: readonly Answer[];
  /** Cancelled when the ingress has it. */
  readonly cancel?: true;
  /** Part of the outcome: the inputs as they came back, by default. */
  readonly expect?: Readonly<Record<string, unknown>>;
  /** Number of attempts that an ingress sees. Default: 1. */
  readonly attempts?: number;
}

export type Outcome =
  | {
      readonly outputs: Readonly<Record<string, CaseTensor>>;
      readonly model: string;
      readonly version: string | null;
    }
  | {
      readonly code: string;
      readonly text: string;
      readonly retryable: boolean;
      readonly retryAfterMs: number | null;
    };

/** Name of the output that an echo makes of an input. */
export const echoed = (input: string): string => (input === "x" ? "y" : input);

const tensorOf = (datatype: DataType, shape: readonly number[], data: readonly unknown[]): CaseTensor => ({
  datatype,
  shape,
  bytes: Buffer.from(bytesFromJson("x", datatype, shape, data)).toString("base64"),
});
const zeros = (datatype: DataType, shape: readonly number[]): CaseTensor => ({
  datatype,
  shape,
  bytes: Buffer.alloc(shape.reduce((product, dim) => product * dim, bytesOf(datatype))).toString("base64"),
});

const TYPES = Object.keys(DATA_TYPES) as DataType[];
/** Least and greatest values, and some between. */
const VALUES: Readonly<Record<DataType, readonly unknown[]>> = {
  BOOL: [true, false, true, true],
  UINT8: [0, 1, 128, 255],
  UINT16: [0, 1, 32_768, 65_535],
  UINT32: [0, 1, 2_147_483_648, 4_294_967_295],
  UINT64: [0, 9_007_199_254_740_991, "9007199254740992", "18446744073709551615"],
  INT8: [-128, -1, 0, 127],
  INT16: [-32_768, -1, 0, 32_767],
  INT32: [-2_147_483_648, -1, 0, 2_147_483_647],
  INT64: ["-9223372036854775808", -1, 9_007_199_254_740_991, "9223372036854775807"],
  FP16: [0.1, -65_504, 6e-8, "Infinity"],
  FP32: [0.1, -3.4028234663852886e38, 1e-45, "NaN"],
  FP64: [0.1, -1.7976931348623157e308, 5e-324, "-Infinity"],
};
export const modelOfType = (type: DataType): string => `type-${type.toLowerCase()}`;

const X = tensorOf("FP32", [1, 4], [0.5, -1, 2.25, 1e-7]);
const one = { inputs: { x: X }, options: {} };
const short = { slo: "150ms" };
const busy = { code: "TUTTI_OVERLOADED", error: "busy", retryAfterMs: 1 } as const;
const lost = { code: "TUTTI_UNAVAILABLE", retryable: true };
const INVALID = { code: "TUTTI_INVALID_INPUT", retryable: false };
const steps = (...costs: readonly (readonly [after: string | number, cost: number])[]) =>
  costs.map(([after, cost]) => ({ after, cost }));

/** Answered by a scripted ingress. */
export const SCRIPTED: readonly ClientCase[] = [
  { name: "a request without an SLO", model: "plain", ...one },
  { name: "another application", model: "plain", ...one, options: { app: "camera-7", slo: 25_000 } },
  {
    name: "every option at once",
    model: "plain",
    ...one,
    options: {
      ...{ slo: "15.5s", outputs: ["y"], version: "2", priority: 7, size: 0.25, id: "a-17", within: "30s" },
      ...{ traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03" },
    },
  },
  { name: "a version in the name", model: "plain/2", ...one },
  { name: "an unreadable trace context is left out", model: "plain", ...one, options: { traceparent: "00-0-0-0" } },
  ...["800us", "800 µs", 0.001, "0.0006ms", 33.333, "1.5s", "2m", " 25ms "].map((after) => ({
    name: `a duration of ${JSON.stringify(after)}`,
    ...{ model: "plain", ...one, options: { costs: steps([after, 1], ["5m", 2]) } },
  })),
  ...[1e-7, 2.5e-6, 320, 1e9].map((size) => ({ name: `a size of ${size}`, model: "plain", ...one, options: { size } })),
  {
    name: "costs, without a step at which they stay",
    model: "plain",
    ...one,
    options: { costs: steps(["25ms", 0.5], [50, 0.5], ["10s", 3e8]) },
  },
  {
    name: "JSON with an id, a selection and a name beyond ASCII",
    model: "plain",
    inputs: { x: X, 'ä"\n\u007f': tensorOf("INT64", [], [7]) },
    options: { form: "json", id: 'ü"', outputs: ["y", "ä"] },
  },
  {
    name: "a tensor of one number and one of none",
    model: "plain",
    inputs: { x: tensorOf("FP64", [], [1]), z: zeros("INT8", [2, 0]) },
    options: {},
  },
  {
    name: "a name of 257 bytes",
    model: "plain",
    inputs: { ["n".repeat(257)]: X },
    options: {},
    expect: INVALID,
    attempts: 0,
  },
  ...Object.keys(ERROR_STATUS).map((code) => ({
    name: `refused with ${code}`,
    model: `refused-${code}`,
    ...one,
    answers: [{ code, error: `no, "${code}"` }],
    expect: { code, text: `no, "${code}"`, retryable: isRetryable(code as keyof typeof ERROR_STATUS) },
  })),
  {
    name: "a refusal says itself whether and when to send again",
    model: "refused",
    ...one,
    answers: [{ code: "TUTTI_DEADLINE_INFEASIBLE", error: "busy", retryable: true, retryAfterMs: 30 }],
    expect: { code: "TUTTI_DEADLINE_INFEASIBLE", retryable: true, retryAfterMs: 30 },
  },
  {
    name: "retryable errors are retried, with one id",
    model: "retried",
    ...one,
    options: { slo: "5s", retries: 2 },
    answers: [busy, busy, "echo"],
    attempts: 3,
  },
  {
    name: "as often as asked for",
    model: "given-up",
    ...one,
    options: { slo: "5s", retries: 1, id: "own" },
    answers: [busy, busy],
    attempts: 2,
    expect: { code: "TUTTI_OVERLOADED" },
  },
  {
    name: "other errors are not retried",
    model: "wrong",
    ...one,
    options: { retries: 5 },
    answers: [{ code: "TUTTI_NOT_FOUND", error: "no" }],
    expect: { code: "TUTTI_NOT_FOUND" },
  },
  { name: "a lost answer", model: "lost", ...one, options: short, answers: ["silence"], expect: lost },
  {
    name: "a lost answer is retried after its deadline",
    model: "lost-once",
    ...one,
    options: { ...short, retries: 1, within: "5s" },
    answers: ["silence", "echo"],
    attempts: 2,
  },
  ...["30s", 30_000].map((coldStart, i) => ({
    name: `an answer is awaited for a cold start of ${JSON.stringify(coldStart)} too, and the SLO is sent as it is`,
    ...{ model: `parked-${i}`, ...one, options: { ...short, coldStart }, answers: [{ afterMs: 400 }] },
  })),
  {
    name: "no attempt is made with less than half an SLO",
    model: "lost-within",
    ...one,
    options: { ...short, retries: 3, within: "200ms" },
    answers: ["silence"],
    expect: lost,
  },
  {
    name: "the last attempt keeps the costs that it can still meet",
    model: "cut-costs",
    ...one,
    options: { costs: steps(["25ms", 1], ["400ms", 3], ["1s", 5]), retries: 1, within: "1500ms" },
    answers: [{ ...busy, retryAfterMs: 600 }, "echo"],
    attempts: 2,
  },
  {
    name: "the last attempt has the time that is left as its SLO",
    model: "cut-slo",
    ...one,
    options: { slo: "1s", retries: 1, within: "1500ms" },
    answers: [{ ...busy, retryAfterMs: 600 }, "echo"],
    attempts: 2,
  },
  {
    name: "a cancelled request",
    model: "slow",
    ...one,
    answers: ["silence"],
    cancel: true,
    expect: { code: "TUTTI_CANCELLED" },
  },
  ...["TTN1 but not really", "{", "nothing", "TTN1\u0001\0\0\0\u0063\0\u0001\0\0\0\0\0a"].map((raw) => ({
    ...{ name: `an unreadable answer: ${JSON.stringify(raw)}`, model: "unreadable", ...one, answers: [{ raw }] },
    expect: { code: "TUTTI_INTERNAL", retryable: false },
  })),
  { name: "no ingress", model: "plain", ...one, options: { app: "nobody" }, attempts: 0, expect: lost },
  ...["a.b", "*", "", ">", "m/", "m/1/2", "m".repeat(65), "m\n"].map((model) => ({
    ...{ name: `no model: ${JSON.stringify(model)}`, model, ...one, attempts: 0, expect: INVALID },
  })),
  ...(
    [
      ...[{ app: "a b" }, { slo: "soon" }, { slo: -1 }, { slo: "1e3ms" }, { size: 0 }, { size: 2e9 }, { retries: 0.5 }],
      ...[{ retries: -1 }, { slo: 25, costs: steps([25, 1]) }, { costs: [] }, { costs: steps([50, 1], [25, 2]) }],
      ...[{ costs: steps([25, 2], [50, 1]) }, { costs: steps([25, 0]) }, { costs: steps([25, 2e9]) }],
      ...[{ coldStart: "soon" }, { id: "a\nb" }, { version: "1\r\nx: y" }],
      { outputs: ["y", "z\nTutti-Slo: 1us"] },
      { costs: Array.from({ length: 9 }, (_, i) => ({ after: 10 + i, cost: 1 + i })) },
    ] as CaseOptions[]
  ).map((options) => ({
    ...{ name: `never sent: ${JSON.stringify(options)}`, model: "plain", ...one, options, attempts: 0 },
    expect: INVALID,
  })),
];

const anyTensor = fc
  .tuple(fc.constantFrom(...TYPES), fc.array(fc.nat({ max: 4 }), { maxLength: 3 }), fc.infiniteStream(fc.nat(255)))
  .map(([datatype, shape, stream]): CaseTensor => {
    const bytes = Buffer.from(zeros(datatype, shape).bytes, "base64");
    for (let i = 0; i < bytes.length; i++) bytes[i] = Number(stream.next().value) & (datatype === "BOOL" ? 1 : 255);
    return { datatype, shape, bytes: bytes.toString("base64") };
  });

/** Tensors of any bits: they are sent as equal bytes, and come back. */
export const RANDOM: readonly ClientCase[] = fc
  .sample(fc.dictionary(fc.string({ minLength: 1, maxLength: 12 }), anyTensor, { maxKeys: 4 }), 100)
  .flatMap((inputs, i) => [
    { name: `random ${i}`, model: "plain", inputs, options: {} },
    // JSON has one NaN and one zero, so not every bit comes back.
    { name: `random ${i} in JSON`, model: "plain", inputs, options: { form: "json" }, expect: {} },
  ]);

/** Answered by a cluster whose models echo their inputs. Those of one model run at the same time, in batches. */
export const LIVE: readonly ClientCase[] = [
  ...TYPES.flatMap((type) =>
    (["binary", "json"] as const).map((form) => ({
      name: `${type} in ${form} form`,
      model: modelOfType(type),
      inputs: { x: tensorOf(type, [1, 4], VALUES[type]) },
      options: { form, slo: "30s" },
    })),
  ),
  ...Array.from({ length: 8 }, (_, i) => ({
    ...{ name: `row ${i} of a batch`, model: "type-fp32", inputs: { x: tensorOf("FP32", [1, 4], [i, 0, 0, 1]) } },
    options: { slo: "30s", id: `row-${i}` },
  })),
  {
    name: "the batch axis left out",
    model: "type-fp32",
    inputs: { x: zeros("FP32", [4]) },
    options: { slo: "30s" },
    expect: { outputs: { y: zeros("FP32", [1, 4]) } },
  },
  { name: "the model's own SLO", model: "type-fp32", ...one },
  { name: "a size and costs", model: "type-fp32", ...one, options: { size: 7, costs: steps(["30s", 1], ["40s", 2]) } },
  { name: "a selection of outputs", model: "type-fp32", ...one, options: { slo: "30s", outputs: ["y"] } },
  { name: "no such output", model: "type-fp32", ...one, options: { outputs: ["z"] }, expect: INVALID },
  { name: "no such model", model: "nothing", ...one, expect: { code: "TUTTI_NOT_FOUND", retryable: false } },
  { name: "another shape", model: "type-fp32", inputs: { x: zeros("FP32", [1, 5]) }, options: {}, expect: INVALID },
  { name: "another type", model: "type-fp32", inputs: { x: zeros("INT64", [1, 4]) }, options: {}, expect: INVALID },
  { name: "too soon", model: "slow", ...one, options: { slo: "1s" }, expect: { code: "TUTTI_DEADLINE_INFEASIBLE" } },
  {
    name: "inputs above the cluster's limit",
    model: "type-fp32",
    inputs: { x: zeros("FP32", [1_048_577]) },
    options: {},
    expect: { code: "TUTTI_TOO_LARGE", retryable: false },
  },
  {
    name: "a message above the server's limit",
    model: "type-fp32",
    inputs: { x: zeros("FP32", [2_097_153]) },
    options: {},
    expect: { code: "TUTTI_TOO_LARGE", retryable: false },
  },
  { name: "a cancelled request", model: "slow", ...one, cancel: true, expect: { code: "TUTTI_CANCELLED" } },
];
