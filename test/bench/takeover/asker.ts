/** Asks for so many milliseconds, each time that it is told to, on a thread of its own: what hears the grants has nothing else to do. */
import { parentPort, workerData } from "node:worker_threads";
import { connect } from "@tutti/client";

const { url, everyMs } = workerData as { readonly url: string; readonly everyMs: number };
const client = await connect({ servers: url, app: "takeover" });

parentPort!.on("message", (durationMs: number) => {
  void askFor(durationMs).then(() => parentPort!.postMessage("asked"));
});

/** What becomes of the requests is for test/e2e to say. */
async function askFor(durationMs: number): Promise<void> {
  const asked: Promise<unknown>[] = [];
  for (let ms = 0; ms < durationMs; ms += everyMs) {
    asked.push(client.infer("resnet50", { x: [[1]] }, { slo: "100ms" }).catch(() => undefined));
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
  await Promise.all(asked);
}
