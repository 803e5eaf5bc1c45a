/** The Jaeger of one `tutti up`: a single process with traces in memory, on loopback only. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { CommandError } from "@tutti/admin";
import { freePort } from "@tutti/admin/cluster";
import type { LogFile } from "./run-directory.ts";

export interface ServingJaeger {
  /** URL of its page and of `/api/traces`. */
  readonly url: string;
  /** URL for actors' traces. */
  readonly otlp: string;
  /** Whether it has its page: one that go built shows a placeholder there. */
  readonly hasPage: boolean;
  /** Resolves with the reason if it ends by itself. */
  readonly died: Promise<string>;
  stop(): Promise<void>;
  kill(): void;
}

/** Jaeger's usual ports, used if they are free. */
const PAGE_PORT = 16_686;
const OTLP_PORT = 4_318;
/** Maximum number of traces: 200 MB at ten spans a trace and about 1 KB a span. */
const TRACES_KEPT = 20_000;
const READY_MS = 30_000;
const LOOK_EVERY_MS = 100;
const LOOK_MS = 3_000;
const STOP_MS = 3_000;
/** Environment variable with the path of the Jaeger executable. */
export const JAEGER_VARIABLE = "TUTTI_JAEGER";

/** Its addresses are known before it runs: actors are told them when they start. */
export interface JaegerPorts {
  readonly page: number;
  readonly otlp: number;
}
export const jaegerPorts = async (): Promise<JaegerPorts> => ({
  page: await freePort(PAGE_PORT),
  otlp: await freePort(OTLP_PORT),
});
export const urlOf = (port: number): string => `http://127.0.0.1:${port}`;

export const jaegerFlags = ({ page, otlp }: JaegerPorts): string[] => {
  const ports = {
    "query.http-server": page,
    "collector.otlp.http": otlp,
    // Unused services can't be turned off, so they listen on any free port, on loopback only.
    ...{ "admin.http": 0, "query.grpc-server": 0, "collector.grpc-server": 0 },
    ...{ "collector.http-server": 0, "collector.otlp.grpc": 0 },
  };
  const hosts = Object.entries(ports).map(([name, port]) => `--${name}.host-port=127.0.0.1:${port}`);
  return [...hosts, `--memory.max-traces=${TRACES_KEPT}`, "--log-level=warn"];
};

/**
 * @param executable - jaeger-all-in-one
 * @throws {CommandError} it doesn't answer, with its last line of output
 */
export async function startJaeger(
  executable: string,
  log: Pick<LogFile, "write">,
  ports: JaegerPorts,
): Promise<ServingJaeger> {
  const child = spawn(executable, jaegerFlags(ports), {
    // Jaeger's own traces are off, and our OTLP settings don't apply to it.
    env: { ...process.env, SPAN_STORAGE_TYPE: "memory", OTEL_TRACES_SAMPLER: "always_off" },
    stdio: ["ignore", "pipe", "pipe"],
    // A process group of its own keeps Ctrl-C away from it, so that it stops last.
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
    // "close" comes after the last line of output, "exit" may come before it.
    child.once("close", (code, signal) => resolve(`it ended with ${signal ?? code}: ${lastWords}`));
  });
  void ended.then(() => watchdog?.kill());
  const url = urlOf(ports.page);
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
    otlp: urlOf(ports.otlp),
    hasPage: await isPage(url),
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

/** @returns undefined: it answers, or the check was aborted; else the error */
async function answers(url: string, giveUp: AbortSignal): Promise<string | undefined> {
  const until = performance.now() + READY_MS;
  while (!giveUp.aborted) {
    try {
      const answer = await fetch(url, { signal: AbortSignal.any([giveUp, AbortSignal.timeout(READY_MS)]) });
      await answer.arrayBuffer();
      if (answer.ok) return undefined;
    } catch {
      // It does not answer yet, and sends no event when it is ready.
    }
    if (performance.now() > until) return `${url} does not answer within ${READY_MS / 1_000} s`;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
  return undefined;
}

const isPage = (url: string): Promise<boolean> =>
  fetch(url, { signal: AbortSignal.timeout(LOOK_MS) })
    .then((answer) => answer.text())
    .then((text) => text.includes("jaeger-ui-root"))
    .catch(() => false);

/**
 * Starts a shell that terminates the child when this process ends, even by SIGKILL: the shell's input closes then. On
 * Windows there is no such shell, so the child ends only with a regular stop.
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
