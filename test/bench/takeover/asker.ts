/**
 * Sends requests for a number of milliseconds whenever it is ordered to. It has a thread of its own, and the thread
 * that hears the grants does nothing else.
 */
import { parentPort, workerData } from "node:worker_threads";
import { connect } from "@tutti/client";
import { TuttiError } from "@tutti/protocol";

const { url, everyMs } = workerData as { readonly url: string; readonly everyMs: number };
const client = await connect({ servers: url, app: "takeover" });

parentPort!.on("message", (durationMs: number) => {
  void askFor(durationMs).then((outcomes) => parentPort!.postMessage(outcomes));
});

/**
 * @returns numbers of requests by outcome. test/e2e checks that none is lost; here they show whether requests were
 *   refused during a long takeover
 */
async function askFor(durationMs: number): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  const count = (outcome: string): void => void (outcomes[outcome] = (outcomes[outcome] ?? 0) + 1);
  const asked: Promise<void>[] = [];
  for (let ms = 0; ms < durationMs; ms += everyMs) {
    const answered = client.infer("resnet50", { x: [[1]] }, { slo: "100ms" });
    asked.push(
      answered.then(
        () => count("answered"),
        (error: unknown) => count(error instanceof TuttiError ? error.code : "failed"),
      ),
    );
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
  await Promise.all(asked);
  return outcomes;
}
