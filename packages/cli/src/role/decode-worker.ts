/** The worker thread of `WorkerDecoder`: one body at a time. */
import { parentPort } from "node:worker_threads";
import { decodeNow } from "@tutti/actors";
import { TuttiError } from "@tutti/protocol";
import type { DecodeReply, DecodeRequest } from "./decode-messages.ts";

parentPort?.on("message", ({ id, form, payload, spec }: DecodeRequest) => {
  try {
    const decoded = decodeNow({ form, payload, spec });
    const row = new Uint8Array(decoded.row); // owned, whatever it was a view of
    reply({ id, decoded: { ...decoded, row } }, [row.buffer]);
  } catch (error) {
    const code = error instanceof TuttiError ? error.code : "TUTTI_INTERNAL";
    const text =
      error instanceof TuttiError ? error.message : "the request could not be read because of a fault on our side";
    reply({ id, failure: { code, text } }, []);
  }
});

function reply(message: DecodeReply, transfer: ArrayBuffer[]): void {
  parentPort?.postMessage(message, transfer);
}
