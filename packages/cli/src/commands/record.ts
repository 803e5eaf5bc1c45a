import { once } from "node:events";
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { type NatsConnection, connectNats, readCredentials } from "@tutti/bus-nats";
import { NAME_RULE, TuttiError, isModelName } from "@tutti/protocol";
import { CommandError, EXIT, note, print, secondsOption, usageError } from "@tutti/admin";
import { type Cluster, type ClusterOptions, connectionRefused, findCluster, openCluster } from "@tutti/admin/cluster";
import { Recorder, TraceWriter } from "@tutti/sim-report/record";
import { TRACE_FORMAT, TRACE_VERSION } from "@tutti/sim-report/trace";
import { typedCommand, writeOutput } from "../present/output-file.ts";
import { ClusterWatch } from "../scenario/cluster-watch.ts";
import { liveScenario, scenarioText } from "../scenario/live-scenario.ts";
import { StopSignal } from "@tutti/host";

/** Writes the scenario of a recording, and returns its path; undefined: it can't, and has said why. */
type WriteScenario = (models: readonly string[]) => Promise<string | undefined>;

export interface RecordCommandOptions extends ClusterOptions {
  readonly out: string;
  readonly seconds?: string;
  readonly models?: string;
  readonly payloads?: boolean;
  readonly json?: boolean;
}

/** 23 days. */
const SECONDS_MAX = 2_000_000;
/** Periods of progress lines: on a terminal each overwrites the last, and elsewhere they accumulate. */
const PROGRESS_MS = { terminal: 500, log: 5_000 } as const;

/**
 * `tutti record`: records passing requests until Ctrl-C, or for a number of seconds, and writes a scenario of them
 * beside the recording. It fails if the recording is empty or has gaps.
 */
export async function record(options: RecordCommandOptions): Promise<void> {
  const models = modelsOf(options.models);
  const runForMs =
    options.seconds === undefined
      ? undefined
      : secondsOption("--seconds", options.seconds, { least: 0.001, most: SECONDS_MAX });
  const cluster = await findCluster(options);
  const stop = new StopSignal(() => process.exit(EXIT.failed));
  const ending: (() => Promise<void>)[] = [];
  try {
    const nats = await connect(options, cluster);
    ending.push(() => nats.close());
    const scenario = await watchFor(options, cluster, ending);
    const writer = await TraceWriter.create(options.out, {
      format: TRACE_FORMAT,
      version: TRACE_VERSION,
      startedAt: new Date().toISOString(),
      cluster: cluster.cluster,
      ...(models.length > 0 && { models }),
      payloads: options.payloads === true,
    });
    const recorder = new Recorder({
      writer,
      models,
      payloads: options.payloads === true,
      nowMs: () => performance.now(),
      wallMs: () => Date.now(),
    });
    const failed = failureOf(nats, writer);
    const listening = recorder.listen(nats.bulk);
    try {
      await Promise.race([new Promise((resolve) => nats.bulk.flush(resolve)), failed]);
      const progress = showProgress(recorder, writer, options.out);
      const timer = runForMs === undefined ? undefined : setTimeout(() => stop.request(), runForMs);
      try {
        if (!stop.signal.aborted) await Promise.race([once(stop.signal, "abort"), failed]);
      } finally {
        clearTimeout(timer);
        progress.stop();
      }
    } finally {
      listening.stop();
      await writer.close(recorder.t);
    }
    const written = writer.count === 0 ? undefined : await scenario?.([...recorder.models.keys()]);
    conclude(recorder, writer, { ...options, scenario: written });
  } finally {
    for (const end of ending.reverse()) await end();
    stop.release();
  }
}

/**
 * Connects with the recorder's credentials of a started cluster, which may only receive requests. An operator's
 * credentials may not receive them.
 */
async function connect(
  { creds }: RecordCommandOptions,
  { servers, credentials, tlsCa, running }: Cluster,
): Promise<NatsConnection> {
  const path = creds ?? running?.credentials?.["recorder"] ?? credentials;
  try {
    return await connectNats({
      servers,
      name: "tutti-record",
      ...(path !== undefined && { credentials: readCredentials(path) }),
      ...(tlsCa !== undefined && { tls: { caFile: tlsCa } }),
    });
  } catch (error) {
    throw await connectionRefused(error, { servers, credentials: path }, "recorder");
  }
}

/**
 * Watches the cluster as an operator while it is recorded. Credentials that are given are the recorder's, which may
 * not.
 */
async function watchFor(
  { creds, out }: RecordCommandOptions,
  cluster: Cluster,
  ending: (() => Promise<void>)[],
): Promise<WriteScenario | undefined> {
  if (creds !== undefined) return undefined;
  const path = out.replace(/(\.jsonl)?$/, ".yaml");
  if (existsSync(path)) throw new CommandError(`${path} is there already: name another file, or remove it first`);
  const fail = (error: unknown): undefined => {
    if (!(error instanceof CommandError || error instanceof TuttiError)) throw error;
    note(`tutti: no scenario is written beside the recording: ${error.message}`);
  };
  const nats = await openCluster(cluster, { name: "tutti-scenario" }).catch(fail);
  if (nats === undefined) return undefined;
  const watch = new ClusterWatch(nats, cluster);
  ending.push(async () => {
    watch.stop();
    await nats.close();
  });
  return async (models) => {
    try {
      const seen = await watch.seen(models);
      writeOutput(path, scenarioText(liveScenario(seen, { trace: basename(out), models }), seen, typedCommand()));
      return path;
    } catch (error) {
      note(`tutti: no scenario is written beside the recording: ${String(error)}`); // the recording is whole
      return undefined;
    }
  };
}

/**
 * Rejects when nothing more can be recorded. The server forbids it, the connection is closed, or the file can't be
 * written.
 */
function failureOf(nats: NatsConnection, writer: TraceWriter): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => undefined); // the caller that awaits it handles the rejection
  nats.bulk.onStatus((status) => {
    if (status.kind === "permission-denied")
      reject(
        new CommandError(
          `these credentials may not listen to ${status.subject}: take those of the user "recorder" (creds/recorder.nk of a started cluster)`,
        ),
      );
    else if (status.kind === "closed") reject(new CommandError(`the connection ended: ${status.reason}`));
  });
  writer.onFailure(reject);
  return promise;
}

const countsOf = ({ count, bytes, missed }: TraceWriter) => ({ count, bytes, missed });

interface Progress extends Readonly<Record<"count" | "bytes" | "missed", number>> {
  /** Time since the first request, in microseconds; 0: none has come. */
  readonly t: number;
}

export function progressText({ t, count, bytes, missed }: Progress, path: string): string {
  if (t === 0 && count === 0) return `recording to ${path}: waits for the first request, from which time counts`;
  const more = missed > 0 ? `, ${missed} missed` : "";
  return `recording to ${path}: ${count} requests in ${(t / 1e6).toFixed(0)} s, ${megabytes(bytes)} MB${more}`;
}

function showProgress(recorder: Recorder, writer: TraceWriter, path: string): { stop(): void } {
  const { isTTY } = process.stderr;
  const show = (): void => {
    writer.flush();
    const text = progressText({ t: recorder.t, ...countsOf(writer) }, path);
    process.stderr.write(isTTY ? `\r\u001b[K${text}` : `${text}\n`);
  };
  show();
  const timer = setInterval(show, isTTY ? PROGRESS_MS.terminal : PROGRESS_MS.log);
  return {
    stop() {
      clearInterval(timer);
      if (isTTY) process.stderr.write("\r\u001b[K");
    },
  };
}

function conclude(
  recorder: Recorder,
  writer: TraceWriter,
  { out, json, scenario }: RecordCommandOptions & { readonly scenario: string | undefined },
): void {
  const summary = {
    out,
    requests: writer.count,
    seconds: Number((recorder.t / 1e6).toFixed(3)),
    models: Object.fromEntries(recorder.models),
    bytes: writer.bytes,
    missed: writer.missed,
    awayMs: Number((recorder.awayUs / 1e3).toFixed(3)),
    ...(scenario !== undefined && { scenario }),
  };
  const isWhole = writer.missed === 0 && recorder.awayUs === 0;
  if (json === true) print(JSON.stringify(summary));
  else {
    const models = [...recorder.models].map(([model, count]) => `${model} ${count}`).join(", ");
    const what = writer.count === 0 ? "no requests" : `${writer.count} requests (${models})`;
    print(`${out}: ${what} in ${summary.seconds} s, ${megabytes(writer.bytes)} MB`);
    if (scenario !== undefined) print(`${scenario}: the scenario of it, for \`tutti simulate\` and \`tutti goodput\``);
    if (writer.missed > 0) note(`tutti: the file could not keep up: ${writer.missed} requests are not in it`);
    if (recorder.awayUs > 0)
      note(`tutti: there was no connection for ${summary.awayMs} ms; what was asked then is missing`);
    if (writer.count === 0) note("tutti: nobody asked for anything, so the recording is empty");
  }
  process.exitCode = isWhole && writer.count > 0 ? EXIT.ok : EXIT.failed;
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);

/** Models, or versions of them: a version that a request names is recorded under that name. */
export function modelsOf(text: string | undefined): string[] {
  const models = text === undefined ? [] : [...new Set(text.split(",").map((model) => model.trim()))];
  const bad = models.find((model) => !isModelName(model));
  if (bad === undefined) return models;
  throw usageError(`--models: "${bad}" is no name of a model: ${NAME_RULE}`);
}
