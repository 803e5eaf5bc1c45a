/** Runs cases of the table through the TypeScript client. */
import { type ConnectOptions, type TensorInput, type Tutti, connect, tensorValue } from "@tutti/client";
import { type TuttiError } from "@tutti/protocol";
import { type CaseTensor, type ClientCase, type Outcome } from "./cases.ts";

export interface Ran {
  readonly outcomes: readonly Outcome[];
  readonly lateAnswers: number;
}

/** @param order - `together` starts all cases at once, `apart` one after the other */
export async function runTypeScript(
  options: ConnectOptions,
  cases: readonly ClientCase[],
  order: "together" | "apart",
): Promise<Ran> {
  const client = await connect(options);
  try {
    const outcomes: Outcome[] = [];
    if (order === "together") outcomes.push(...(await Promise.all(cases.map((each) => runCase(client, each)))));
    else for (const each of cases) outcomes.push(await runCase(client, each));
    await client.infer("nothing", {}).catch(() => undefined); // its answer follows those that are late
    return { outcomes, lateAnswers: client.lateAnswers };
  } finally {
    await client.close();
  }
}

async function runCase(client: Tutti, { model, inputs, options, cancel }: ClientCase): Promise<Outcome> {
  const abort = new AbortController();
  const tensors = Object.entries(inputs).map(([name, tensor]) => [name, valueOf(name, tensor)] as const);
  const answer = client.infer(model, Object.fromEntries(tensors), { ...options, signal: abort.signal }).then(
    ({ outputs, model: answered, version = null }) => ({
      outputs: Object.fromEntries(Object.entries(outputs).map(([name, value]) => [name, caseTensorOf(value)])),
      model: answered,
      version,
    }),
    ({ code, message, retryable, retryAfterMs }: TuttiError) => ({
      ...{ code, text: message, retryable, retryAfterMs: retryAfterMs ?? null },
    }),
  );
  if (cancel === true) {
    // A later request of the same connection is answered: the ingress has the one before by then.
    await client.infer("nothing", {}).catch(() => undefined);
    abort.abort();
  }
  return answer;
}

const valueOf = (name: string, { datatype, shape, bytes }: CaseTensor): TensorInput =>
  tensorValue({ name, type: datatype, dims: shape, data: new Uint8Array(Buffer.from(bytes, "base64")) });

function caseTensorOf({ type, dims, data }: ReturnType<typeof tensorValue>): CaseTensor {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");
  return { datatype: type, shape: dims, bytes };
}
