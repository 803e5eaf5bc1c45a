/**
 * Runs commands of the documentation against a cluster of the tests. They run unchanged but for addresses, and for
 * deadlines, which other suites test.
 */
import { execFile, execFileSync } from "node:child_process";
import type { DocCommand } from "../fixtures/doc-blocks.ts";
import { ROOT, type TuttiUp } from "./tutti-up.ts";

export interface LiveResult {
  readonly text: string;
  readonly code: number;
  readonly output: string;
}

/** Loopback addresses in the documentation. */
const PLACES = { http: "127.0.0.1:8000", metrics: "127.0.0.1:8002" } as const;
/**
 * SLO of live requests. It is not longer, since a request is deferred for a part of its SLO, and a sound is many
 * requests in a row.
 */
const SLO = "2s";
const SLO_OF_SOUND = "500ms";
const ATTEMPTS = 4;

/** Runs a command. A busy machine may refuse a request for lack of time: commands that send one are repeated then. */
export async function runLive(command: DocCommand, up: TuttiUp): Promise<LiveResult> {
  const asks = /^bin\/tutti infer|\/infer /.test(command.text);
  for (let attempt = 1; ; attempt++) {
    const result = await runOnce(command, up);
    if (result.code === 0 || !asks || attempt >= ATTEMPTS) return result;
  }
}

async function runOnce(command: DocCommand, up: TuttiUp): Promise<LiveResult> {
  const ready = up.events.find((event) => event.event === "child-ready" && event["http"] !== undefined);
  const addressOf = (name: keyof typeof PLACES): string => String(ready?.[name]).replace("http://", "");
  const adapted = command.text
    .replaceAll(PLACES.http, addressOf("http"))
    .replaceAll(PLACES.metrics, addressOf("metrics"))
    .replace(/tutti-slo: \w+/, `tutti-slo: ${SLO}`)
    .replace(/(?<=^bin\/tutti infer .*?)( --slo \S+)/, "")
    .replace(/^bin\/tutti infer .*\.wav$/, `$& --slo ${SLO_OF_SOUND}`)
    .replace(/^bin\/tutti infer (?!.*\.wav).*$/, `$& --slo ${SLO}`)
    .replace(/^bin\/tutti/, `"${process.execPath}" packages/cli/src/main.ts`);
  const { TUTTI_NATS: _, TUTTI_CREDS: __, ...rest } = process.env;
  const env = { ...rest, TUTTI_RUN_DIR: up.runDirectory };
  return new Promise((resolve) => {
    execFile("bash", ["-c", adapted], { cwd: ROOT, env, maxBuffer: 64_000_000 }, (error, stdout, stderr) =>
      resolve({ text: command.text, code: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr }),
    );
  });
}

export function hasCurl(): boolean {
  try {
    execFileSync("curl", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
