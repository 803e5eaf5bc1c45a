/**
 * Asks for so many milliseconds, each time that it is told to, on a thread of its own: what hears the grants has
 * nothing else to do.
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
 * @returns how many requests had which end: that none is lost is for test/e2e to say, but who sees a long takeover
 *   wants to know whether requests were refused meanwhile
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
