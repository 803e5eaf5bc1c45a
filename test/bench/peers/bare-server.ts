/**
 * A bare server: the limit of Node here. One process reads JSON or binary tensors, forms a batch of the requests that
 * have arrived meanwhile, runs it, and writes the answers. It has no deadlines, no priorities, and no recovery.
 *
 *   PEERS_SETTINGS='{"port": …, "models": […], …}' node bare-server.ts
 */
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import { type BareModel, type Row, loadBareModel } from "./bare-models.ts";
import type { ServerSettings } from "./server-settings.ts";

interface Waiting {
  readonly row: Row;
  readonly response: ServerResponse;
  readonly isBinary: boolean;
}

const settings = JSON.parse(process.env["PEERS_SETTINGS"] ?? "{}") as ServerSettings;
const models = new Map<string, { readonly model: BareModel; readonly queue: Waiting[] }>();
for (const spec of settings.models)
  models.set(`/v2/models/${spec.name}/infer`, { model: await loadBareModel(spec), queue: [] });
const served = [...models.values()];
let idle = settings.executors;
/** Model at which the next free executor looks first: models take turns. */
let turn = 0;

function runAll(): void {
  for (; idle > 0; idle--) {
    const next = served.findIndex((_, i) => served[(turn + i) % served.length]!.queue.length > 0);
    if (next < 0) return;
    const { model, queue } = served[(turn + next) % served.length]!;
    turn += next + 1;
    void runBatch(model, queue.splice(0, settings.batchMax));
  }
}

async function runBatch(model: BareModel, batch: readonly Waiting[]): Promise<void> {
  const rows = await model.run(batch.map(({ row }) => row));
  batch.forEach(({ response, isBinary }, i) => answer(response, model.output, rows[i]!, isBinary));
  idle++;
  runAll();
}

function answer(response: ServerResponse, name: string, row: Float32Array, isBinary: boolean): void {
  const output = { name, datatype: "FP32", shape: [1, row.length] };
  if (!isBinary) {
    const body = JSON.stringify({ outputs: [{ ...output, data: Array.from(row) }] });
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
    response.end(body);
    return;
  }
  const head = JSON.stringify({ outputs: [{ ...output, parameters: { binary_data_size: row.byteLength } }] });
  const body = Buffer.concat([Buffer.from(head), Buffer.from(row.buffer, row.byteOffset, row.byteLength)]);
  response.writeHead(200, {
    "content-type": "application/octet-stream",
    "content-length": body.byteLength,
    "inference-header-content-length": head.length,
  });
  response.end(body);
}

/** The first input: numbers of JSON, or the bytes after the header. */
function rowOf({ headers }: IncomingMessage, chunks: readonly Buffer[]): Row {
  const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const jsonBytes = headers["inference-header-content-length"];
  if (jsonBytes !== undefined) return body.subarray(Number(jsonBytes));
  return (JSON.parse(body.toString()) as { inputs: { data: number[] }[] }).inputs[0]!.data;
}

createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const row = rowOf(request, chunks);
    models.get(request.url ?? "")!.queue.push({ row, response, isBinary: row instanceof Buffer });
    runAll();
  });
}).listen(settings.port, "127.0.0.1");
