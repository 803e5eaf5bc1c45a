/** The Jaeger beside one `tutti up`: all of it in one process, traces in its memory, on loopback only. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { CommandError } from "../failure.ts";
import { freePort } from "./free-port.ts";
import type { LogFile } from "./run-directory.ts";

export interface ServingJaeger {
  /** Its page, and `/api/traces`. */
  readonly url: string;
  /** Where actors send their traces. */
  readonly otlp: string;
  /** Resolves, with why, if it ends by itself. */
  readonly died: Promise<string>;
  stop(): Promise<void>;
  kill(): void;
}

/** Where people look for it, if nobody is there. */
const PAGE_PORT = 16_686;
const OTLP_PORT = 4_318;
/** About 1 KB a span and ten spans a trace: 200 MB when it is full. */
const TRACES_KEPT = 20_000;
const READY_MS = 30_000;
const LOOK_EVERY_MS = 100;
const STOP_MS = 3_000;
/** Where setup puts what `--jaeger` needs. */
export const JAEGER_VARIABLE = "TUTTI_JAEGER";

/** @param pagePort, otlpPort - 0: any */
export const jaegerFlags = (pagePort: number, otlpPort: number): string[] => {
  const ports = {
    "query.http-server": pagePort,
    "collector.otlp.http": otlpPort,
    // What nobody asks here still listens somewhere: anywhere, and not beyond this machine.
    ...{ "admin.http": 0, "query.grpc-server": 0, "collector.grpc-server": 0 },
    ...{ "collector.http-server": 0, "collector.otlp.grpc": 0 },
  };
  const hosts = Object.entries(ports).map(([name, port]) => `--${name}.host-port=127.0.0.1:${port}`);
  return [...hosts, `--memory.max-traces=${TRACES_KEPT}`, "--log-level=warn"];
};

/**
 * @param executable - jaeger-all-in-one
 * @throws {CommandError} it doesn't answer, with its last words
 */
export async function startJaeger(executable: string, log: Pick<LogFile, "write">): Promise<ServingJaeger> {
  const [pagePort, otlpPort] = [await freePort(PAGE_PORT), await freePort(OTLP_PORT)];
  const child = spawn(executable, jaegerFlags(pagePort, otlpPort), {
    // Its own traces are of no interest here, nor is where ours would go.
    env: { ...process.env, SPAN_STORAGE_TYPE: "memory", OTEL_TRACES_SAMPLER: "always_off" },
    stdio: ["ignore", "pipe", "pipe"],
    // A process group of its own: Ctrl-C is for us, and it goes last.
    detached: true,
  });
  let lastWords = "";
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on("line", (line) => {
      lastWords = line;
      log.write(line);
    });
  const watchdog = endWithUs(child);
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    // "close" comes after its last words, "exit" may come before them.
    child.once("close", (code, signal) => resolve(`it ended with ${signal ?? code}: ${lastWords}`));
  });
  void ended.then(() => watchdog?.kill());
  const url = `http://127.0.0.1:${pagePort}`;
  const giveUp = new AbortController();
  const trouble = await Promise.race([ended, answers(`${url}/api/services`, giveUp.signal)]);
  giveUp.abort();
  if (trouble !== undefined) {
    child.kill("SIGKILL");
    throw new CommandError(`Jaeger (${executable}) does not start: ${trouble}`);
  }
  let stopping = false;
  return {
    url,
    otlp: `http://127.0.0.1:${otlpPort}`,
    died: new Promise((resolve) => void ended.then((why) => stopping || resolve(why))),
    async stop() {
      stopping = true;
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await gone;
      clearTimeout(timer);
    },
    kill: () => void child.kill("SIGKILL"),
  };
}

/** @returns undefined once it answers or nobody wants to know any more, else what is wrong */
async function answers(url: string, giveUp: AbortSignal): Promise<string | undefined> {
  const until = performance.now() + READY_MS;
  while (!giveUp.aborted) {
    try {
      const answer = await fetch(url, { signal: AbortSignal.any([giveUp, AbortSignal.timeout(READY_MS)]) });
      await answer.arrayBuffer();
      if (answer.ok) return undefined;
    } catch {
      // Not yet: it has no event that says when.
    }
    if (performance.now() > until) return `${url} does not answer within ${READY_MS / 1_000} s`;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  return undefined;
}

/**
 * Also when we are killed: the watchdog's input ends then, and it ends what it watches. Where there is no shell
 * (Windows), only a proper end does.
 */
function endWithUs(child: ChildProcess): ChildProcess | undefined {
  if (child.pid === undefined || process.platform === "win32") return undefined;
  const watchdog = spawn("/bin/sh", ["-c", 'read -r _; kill -TERM "$0"', String(child.pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watchdog.once("error", () => undefined);
  watchdog.unref();
  (watchdog.stdin as unknown as { unref(): void } | null)?.unref();
  return watchdog;
}
