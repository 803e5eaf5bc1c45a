/**
 * The limit of what Node can do here: one process that reads JSON, forms a batch of whatever has come meanwhile, runs it, and writes JSON. It has no deadlines,
 * no other models, and nothing survives it.
 *
 *   node bare-server.ts <model.onnx> <port>
 */
import { type ServerResponse, createServer } from "node:http";
import { InferenceSession, Tensor } from "onnxruntime-node";

const [path = "", port = "0"] = process.argv.slice(2);
const session = await InferenceSession.create(path, { intraOpNumThreads: 1, interOpNumThreads: 1 });
const [input = ""] = session.inputNames;
const [output = ""] = session.outputNames;
const BATCH_MAX = 32;

const queue: { readonly row: readonly number[]; readonly response: ServerResponse }[] = [];
let isRunning = false;

async function run(): Promise<void> {
  if (isRunning) return;
  isRunning = true;
  while (queue.length > 0) {
    const batch = queue.splice(0, BATCH_MAX);
    const width = batch[0]!.row.length;
    const rows = new Float32Array(batch.length * width);
    batch.forEach(({ row }, i) => rows.set(row, i * width));
    const answer = (await session.run({ [input]: new Tensor("float32", rows, [batch.length, width]) }))[output]!;
    const all = answer.data as Float32Array;
    const each = all.length / batch.length;
    batch.forEach(({ response }, i) => {
      const data = Array.from(all.subarray(i * each, (i + 1) * each));
      const body = JSON.stringify({ outputs: [{ name: output, datatype: "FP32", shape: [1, each], data }] });
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
      response.end(body);
    });
  }
  isRunning = false;
}

createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { inputs } = JSON.parse(Buffer.concat(chunks).toString()) as { inputs: { data: number[] }[] };
    queue.push({ row: inputs[0]!.data, response });
    void run();
  });
}).listen(Number(port), "127.0.0.1");
