import { parentPort } from "node:worker_threads";
import { type Decoded, decodeNow } from "@tutti/ports/decode";
import { TuttiError } from "@tutti/protocol";
import type { FromWorker, ToWorker } from "./messages.ts";

const port = parentPort;
port?.on("message", (job: ToWorker) => {
  let decoded: Decoded;
  try {
    decoded = decodeNow(job);
  } catch (error) {
    const code = error instanceof TuttiError ? error.code : "TUTTI_INTERNAL";
    port.postMessage({ code, text: error instanceof Error ? error.message : String(error) } satisfies FromWorker);
    return;
  }
  const { buffer, byteLength } = decoded.row;
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  port.postMessage({ decoded } satisfies FromWorker, isWhole ? [buffer] : []);
});
