import { parentPort } from "node:worker_threads";
import type { Failed } from "@tutti/node/decode";
import { TuttiError } from "@tutti/protocol";
import { writeAnswerJson } from "./infer-answer.ts";
import type { FromBodyWorker, ToBodyWorker } from "./long-body-messages.ts";
import { readHead } from "./predict.ts";

const port = parentPort;
port?.on("message", (job: ToBodyWorker) => {
  let answer: FromBodyWorker | Failed;
  try {
    answer = "json" in job ? { head: readHead(job.json, job.predict) } : { written: writeAnswerJson(job.answer) };
  } catch (error) {
    const code = error instanceof TuttiError ? error.code : "TUTTI_INTERNAL";
    answer = { code, text: error instanceof Error ? error.message : String(error) };
  }
  port.postMessage(answer, buffersOf(answer));
});

/** Buffers to transfer instead of copying: those that hold nothing else. */
function buffersOf(answer: FromBodyWorker | Failed): ArrayBuffer[] {
  if ("written" in answer) return [answer.written.buffer as ArrayBuffer];
  if (!("head" in answer)) return [];
  return answer.head.inputs.flatMap(({ data }) => (data === undefined ? [] : [data.buffer as ArrayBuffer]));
}
