/** The Jaeger beside a cluster, which doesn't wait for one that is still on its way. */
import { once } from "node:events";
import type { Announcer } from "./announcer.ts";
import { JAEGER_VARIABLE, type ServingJaeger, jaegerPorts, startJaeger, urlOf } from "./jaeger.ts";
import type { RunDirectory } from "./run-directory.ts";

export interface JaegerBeside extends Pick<ServingJaeger, "url" | "otlp" | "kill"> {
  stop(): Promise<void>;
}

/** The launcher (infra/setup) sets it where it brings a Jaeger meanwhile, and sends its path, or null. */
const COMES_VARIABLE = "TUTTI_JAEGER_COMES";

interface Coming {
  /** Path of the one that was brought; undefined: none could be. */
  readonly executable: Promise<string | undefined>;
  /** Waits for it no longer. */
  forget(): void;
}

/**
 * @param coming - of one that is on its way; undefined: none is
 * @returns undefined: there is none, so the cluster runs without traces
 */
export async function provideJaeger(
  directory: Pick<RunDirectory, "openLog">,
  announcer: Pick<Announcer, "say">,
  coming: Coming | undefined = fromLauncher(),
): Promise<JaegerBeside | undefined> {
  const ports = await jaegerPorts();
  const log = directory.openLog("jaeger");
  let serving: ServingJaeger | undefined;
  let isOver = false;
  const start = async (executable: string | undefined): Promise<void> => {
    if (isOver) return;
    try {
      if (executable === undefined) throw new Error("No Jaeger could be brought.");
      serving = await startJaeger(executable, log, ports);
      if (isOver) return serving.kill();
      void serving.died.then((why) => announcer.say("jaeger-died", `Jaeger: ${why}; traces are lost`, { why }));
      announcer.say("jaeger", textOf(serving), { url: serving.url, otlp: serving.otlp, page: serving.hasPage });
    } catch (error) {
      const why = (error as Error).message;
      const text = `${why}\nGoes on without traces. \`npm run jaeger\` brings one; ${JAEGER_VARIABLE} names one.`;
      announcer.say("jaeger-missing", text, { why });
    }
  };
  if (coming === undefined) {
    await start(process.env[JAEGER_VARIABLE] ?? "jaeger-all-in-one");
    if (serving === undefined) return undefined;
  } else {
    announcer.say(
      "jaeger-comes",
      "Jaeger comes later: it is fetched, or built in minutes. Traces until then are lost.",
    );
    void coming.executable.then(start);
  }
  return {
    url: urlOf(ports.page),
    otlp: urlOf(ports.otlp),
    async stop() {
      isOver = true;
      coming?.forget();
      await serving?.stop();
    },
    kill: () => serving?.kill(),
  };
}

const textOf = ({ url, hasPage }: ServingJaeger): string =>
  hasPage
    ? `Jaeger: ${url}`
    : `Jaeger: ${url}/api/traces (go built it, without its page: the console's Traces shows them)`;

function fromLauncher(): Coming | undefined {
  if (process.env[COMES_VARIABLE] === undefined || !process.connected) return undefined;
  delete process.env[COMES_VARIABLE]; // no process that we start has such a launcher
  const isGone = new AbortController();
  process.once("disconnect", () => isGone.abort());
  const executable = once(process, "message", { signal: isGone.signal }).then(
    ([told]: { readonly jaeger: string | null }[]) => told?.jaeger ?? undefined,
    () => undefined,
  );
  // A message that is awaited would keep this process.
  return { executable, forget: () => void (process.connected && process.disconnect()) };
}
