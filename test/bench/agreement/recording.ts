import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

const MAIN = join(import.meta.dirname, "../../../packages/cli/src/main.ts");

/** A running `tutti record` beside a system. */
export interface Recording {
  /** Ends the recording. @returns the number of recorded requests @throws Error if the recording has gaps */
  stop(): Promise<{ readonly requests: number }>;
}

/** Resolves when the recorder listens. */
export async function startRecording(url: string, out: string): Promise<Recording> {
  const child = spawn(process.execPath, [MAIN, "record", "--nats", url, "--out", out, "--json"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const closed = once(child, "close") as Promise<[number | null]>;
  const listening = new Promise<void>((resolve) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      if (line.startsWith("recording to")) resolve();
    });
  });
  const early = closed.then(([code]) => {
    throw new Error(`tutti record ended with ${code} before it listened: ${said}`);
  });
  early.catch(() => undefined); // an exit is expected later, after `stop`
  await Promise.race([listening, early]);
  return {
    async stop() {
      child.kill("SIGINT");
      const [code] = await closed;
      if (code !== 0) throw new Error(`tutti record ended with ${code}: ${said}`);
      return JSON.parse(said) as { requests: number };
    },
  };
}
