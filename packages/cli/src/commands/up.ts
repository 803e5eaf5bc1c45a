import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { type ListedModel, ModelRegistry } from "@tutti/client/registries";
import type { NatsConnection } from "@tutti/bus-nats";
import { type PlanReport, ScalingAdvised, StatsReported, subjectsOf } from "@tutti/protocol";
import { FrameReader } from "@tutti/wire";
import { type AgentOptions, startAgent } from "@tutti/host/agent";
import { openConnection } from "@tutti/admin/cluster";
import { type LoadableModel, type RepositoryModel, passedOverText } from "@tutti/admin/models";
import { hasTaskset } from "@tutti/host/parts";
import { usageError } from "@tutti/admin";
import { checkPipelines } from "@tutti/host/pipelines";
import {
  type PlannedRole,
  type ServingNats,
  type UpOptions,
  Announcer,
  Autoscaler,
  checkGatewayPorts,
  planCluster,
  Deployment,
  type DivisibleModels,
  Divider,
  absenceText,
  readModelSources,
  CLUSTER,
  provideJaeger,
  provideNats,
  PlanWatch,
  StatusBoard,
  watchModels,
  WarmWatch,
  type ModelWatch,
  readUpOptions,
} from "@tutti/host/up";
import { FLAGS, StopSignal, variableOf } from "@tutti/host";
import { shownAddresses } from "@tutti/units";
import type { Command } from "commander";
import { upOptions } from "../config/command-options.ts";
import { emulatedOnHalves, readOnHalves } from "../plan/halves.ts";

/** Profiling a model on a busy machine takes seconds, and there may be many. */
const SERVED_MS = 300_000;

const STATE_RETRY_MS = 5_000;
/** Time limit for the processes of an accelerator's halves to become ready. */
const SPLIT_MS = 60_000;

/** `tutti up`: runs everything on one machine until Ctrl-C, and leaves nothing behind. */
export async function up(command: Command): Promise<void> {
  const options = readUpOptions(await upOptions(command));
  // The roles' flags say all of it, and variables that were exported for another cluster must not reach this one.
  for (const name of FLAGS.map(variableOf)) if (name !== undefined) delete process.env[name];
  const { models: loadable, repository, jitter } = await readModelSources(options);
  const known = await onHalves(options, loadable);
  await checkPipelines(
    options.pipelines,
    loadable.map(({ model }) => model.name),
  );
  await checkGatewayPorts(options);
  const announcer = announcerFor(options.json);
  const passedOver = passedOverText(loadable);
  if (passedOver !== undefined) announcer.say("models-passed-over", passedOver, { text: passedOver });
  const ending: (() => Promise<void>)[] = [];
  const kills: (() => void)[] = [];
  const stop = new StopSignal(() => {
    for (const kill of kills) kill();
    process.exit(1);
  });
  try {
    const nats = await provideNats(options, announcer).catch((error: unknown) => {
      // A starting server receives Ctrl-C, too, until it has a process group of its own.
      if (!stop.signal.aborted) throw error;
    });
    if (nats === undefined) return;
    ending.push(() => nats.stop());
    kills.push(() => nats.kill());
    const url = shownAddresses(nats.url);
    announcer.say("nats", `NATS server: ${url}, logs: ${nats.directory.logs}`, { url, port: nats.port });
    const jaeger = options.jaeger ? await provideJaeger(nats.directory, announcer) : undefined;
    if (jaeger !== undefined) {
      ending.push(() => jaeger.stop()); // after the actors, which send it their last traces
      kills.push(() => jaeger.kill());
    }
    const deployment = new Deployment(announcer, nats.directory);
    ending.push(() => deployment.stop());
    kills.push(() => deployment.kill());
    const traced = jaeger === undefined ? options : { ...options, otlp: jaeger.otlp, traceQuery: jaeger.url };
    const planned = planCluster(traced, {
      url: nats.url,
      credentials: nats.credentials,
      state: join(nats.directory.path, "executors"),
      jitter,
      models: loadable.map(({ model }) => model.name),
      hasTaskset: options.coresEach !== undefined && hasTaskset(),
    });
    const agent = startAgent(agentOptions(options, nats, deployment, announcer));
    ending.push(() => agent.stop());
    const scaling = autoscalerOf(options, planned, deployment, announcer);
    if (scaling !== undefined) ending.push(() => Promise.resolve(scaling.close()));
    const divider = dividerOf(options, known, { planned, deployment, announcer });
    if (divider !== undefined) ending.push(() => Promise.resolve(divider.close()));
    const start = (): Promise<void> => deployment.start(planned);
    const work = serve({ options, loadable, repository, announcer, nats, stop, start, scaling, divider });
    ending.push(() => work.catch(() => undefined)); // it closes its connection before the server stops
    await stop.orUntil(Promise.race([work, deployment.broken]));
  } finally {
    announcer.stopping();
    stop.request();
    for (const end of ending.reverse()) await end();
    stop.release();
    announcer.say("stopped", "Stopped.");
  }
}

const agentOptions = (
  { tls }: UpOptions,
  nats: ServingNats,
  { processManager }: Deployment,
  announcer: Announcer,
): AgentOptions => ({
  servers: nats.url,
  credentials: nats.credentials["agent"],
  tlsCa: tls?.ca,
  cluster: CLUSTER,
  processManager,
  onTrouble: (text) => announcer.say("agent-trouble", text, { text }),
});

function autoscalerOf(
  { autoscale, emulate, emulatedGpus }: UpOptions,
  planned: readonly PlannedRole[],
  { supervisor }: Deployment,
  announcer: Announcer,
): Autoscaler | undefined {
  if (autoscale === undefined) return undefined;
  const names = planned.filter(({ role }) => role === "executor").map(({ name }) => name);
  const gpusEach = emulate === undefined ? 1 : emulatedGpus / autoscale.max;
  const say = (event: string, text: string, fields: object): void => announcer.say(event, text, { ...fields });
  return new Autoscaler({ supervisor, names, min: autoscale.min, gpusEach, say });
}

interface Dividing {
  readonly planned: readonly PlannedRole[];
  readonly deployment: Deployment;
  readonly announcer: Announcer;
}

/** Latencies on halves of emulated executors beside real ones, and of all others. */
interface OnHalves {
  readonly emulated: DivisibleModels;
  readonly real: DivisibleModels;
}

/** @throws {CommandError} the input is faulty */
async function onHalves({ divide }: UpOptions, loadable: readonly LoadableModel[]): Promise<OnHalves | undefined> {
  if (divide === false) return undefined;
  const emulated = emulatedOnHalves(loadable.map(({ model }) => model));
  return { emulated, real: divide === true ? emulated : await readOnHalves(divide) };
}

/** @throws {CommandError} no executor can be split */
function dividerOf(
  { emulate, provider }: UpOptions,
  known: OnHalves | undefined,
  { planned, deployment, announcer }: Dividing,
): Divider | undefined {
  if (known === undefined) return undefined;
  const executors = planned.filter(({ role }) => role === "executor");
  const isBeside = ({ splittable }: PlannedRole): boolean =>
    emulate === undefined && splittable?.machine.provider === "emulated";
  const types = [
    {
      type: emulate === undefined ? provider : "emulated",
      known: known.real,
      own: executors.filter((one) => !isBeside(one)),
    },
    { type: "emulated", known: known.emulated, own: executors.filter(isBeside) },
  ];
  const whole = executors.find(({ splittable }) => splittable === undefined);
  if (whole !== undefined) throw usageError(`--divide: ${whole.name} can't be split: ${whole.unsplittable}`);
  return new Divider({
    types: types.flatMap(({ own, ...one }) =>
      own.length === 0 ? [] : [{ ...one, names: own.map(({ name }) => name) }],
    ),
    isSplit: (name) => deployment.parts?.isSplit(name) === true,
    split: (name, size) =>
      deployment.processManager.perform("split", name, { size, readyMs: SPLIT_MS, report: () => undefined }),
    say: (event, text, fields) => announcer.say(event, text, { ...fields }),
  });
}

interface Serving {
  readonly options: UpOptions;
  /** Emptied once they are loaded, so that their files are not kept in memory. */
  readonly loadable: LoadableModel[];
  readonly repository: readonly RepositoryModel[];
  readonly announcer: Announcer;
  readonly nats: ServingNats;
  readonly stop: StopSignal;
  readonly start: () => Promise<void>;
  readonly scaling: Autoscaler | undefined;
  readonly divider: Divider | undefined;
}

async function serve(serving: Serving): Promise<void> {
  const { options, loadable, announcer, nats, stop } = serving;
  // Before the processes are up: `tutti logs` and `tutti actors` are what tells why one of them doesn't get there.
  const state = keepState(options, nats, announcer);
  let connections: NatsConnection | undefined;
  try {
    await stop.orUntil(serving.start());
    if (stop.signal.aborted) return;
    connections = await openConnection({
      servers: nats.url,
      credentials: nats.credentials["admin"],
      tlsCa: options.tls?.ca,
      name: "tutti-up",
    });
    const warm = new WarmWatch(connections.control);
    const listed = await loadAll(connections, loadable.splice(0), serving);
    if (stop.signal.aborted) return;
    const absence = absenceText(options, { models: listed.length, repository: serving.repository.length });
    if (absence !== undefined) announcer.say("no-models", absence, { text: absence });
    const ready = listed.filter(({ status }) => status?.state === "ready").length;
    const loaded = ready === listed.length ? "Everything is" : `${ready} of ${listed.length} models are`;
    if (listed.length > 0) announcer.say("warming", `${loaded} loaded; warming up.`);
    await warm.until(listed.length, options.warmup, stop.signal);
    warm.stop();
    if (stop.signal.aborted) return;
    announcer.models(listed);
    // Little is allocated from now on, and the start's garbage would stay for hours (infra/setup passes --expose-gc).
    globalThis.gc?.();
    const watching = watchStatus(connections, announcer);
    const advice = followAdvice(connections, serving.scaling) ?? followLoads(connections, serving.divider);
    const models = followModels(connections, serving, listed);
    if (options.onceReady !== undefined) await runOnce(options.onceReady, nats, options);
    else await once(stop.signal, "abort");
    watching.stop();
    advice?.stop();
    await models?.stop();
  } finally {
    state.stop();
    nats.directory.clearState();
    await connections?.close();
  }
}

/** Writes the cluster's address for other commands: at once, or as soon as the disk accepts it. */
function keepState(
  { tls }: UpOptions,
  { url, credentials, directory }: ServingNats,
  announcer: Announcer,
): { stop(): void } {
  const startedAt = new Date().toISOString();
  const running = { url, cluster: CLUSTER, pid: process.pid, startedAt, credentials };
  let timer: NodeJS.Timeout | undefined;
  const write = (attempt: number): void => {
    try {
      directory.writeState({ ...running, ...(tls !== undefined && { tlsCa: tls.ca }) });
    } catch (error) {
      const why = (error as Error).message;
      const text = `other commands don't find this cluster by themselves as yet: ${why}`;
      if (attempt === 1) announcer.say("state-unwritten", text, { why });
      timer = setTimeout(() => write(attempt + 1), STATE_RETRY_MS);
    }
  };
  write(1);
  return { stop: () => clearTimeout(timer) };
}

async function loadAll(
  connections: NatsConnection,
  loadable: readonly LoadableModel[],
  { announcer, stop }: Serving,
): Promise<ListedModel[]> {
  const registry = new ModelRegistry(connections.store);
  const wait = async ({ model, bytes }: LoadableModel): Promise<ListedModel> => {
    const spec = await registry.publish(model, { model: bytes });
    const status = await registry.waitUntilServed(spec, {
      timeoutMs: SERVED_MS,
      signal: stop.signal,
      onState: ({ name, state, reason }) =>
        announcer.say("model", `${name}: ${state}${reason === "" ? "" : `, ${reason}`}`, { name, state, reason }),
    });
    return { spec, status };
  };
  return Promise.all(loadable.map(wait));
}

function watchStatus({ control }: NatsConnection, announcer: Announcer): { stop(): void } {
  const board = new StatusBoard(performance.now());
  const reader = new FrameReader().on(StatsReported, (stats) => {
    if (StatsReported.accepts(stats)) board.hear(stats, performance.now());
  });
  const subscription = control.subscribe(
    subjectsOf(CLUSTER).stats("*"),
    (delivery) => void reader.read(delivery.payload),
  );
  const timer = setInterval(() => announcer.status(board.read(performance.now())), 1_000);
  return {
    stop() {
      clearInterval(timer);
      subscription.stop();
    },
  };
}

function followModels(
  { store }: NatsConnection,
  { options: { models: place, modelsPoll: every }, repository: served, announcer }: Serving,
  listed: readonly ListedModel[],
): ModelWatch | undefined {
  if (place === undefined || every === undefined) return undefined;
  const specs = listed.map(({ spec }) => spec);
  return watchModels(store, { place, every, served, specs, servedMs: SERVED_MS, announcer });
}

function followAdvice(
  { control, store }: NatsConnection,
  scaling: Autoscaler | undefined,
): { stop(): void } | undefined {
  if (scaling === undefined) return undefined;
  const plan = new PlanWatch(store);
  const reader = new FrameReader().on(ScalingAdvised, (advised) => {
    if (ScalingAdvised.accepts(advised)) scaling.hear(advised, plan);
  });
  const advice = control.subscribe(subjectsOf(CLUSTER).advice, (delivery) => void reader.read(delivery.payload));
  return {
    stop() {
      advice.stop();
      plan.stop();
    },
  };
}

/** Gives the divider what the planner measures, as it reports it. */
function followLoads({ store }: NatsConnection, divider: Divider | undefined): { stop(): void } | undefined {
  if (divider === undefined) return undefined;
  const registry = new ModelRegistry(store);
  const hear = async ({ models, at }: PlanReport): Promise<void> => {
    const ready = (await registry.list()).filter(({ status }) => status?.state === "ready");
    const slos = new Map(ready.map(({ spec }) => [spec.number, spec.slo]));
    const loads = models.flatMap(({ number, name, rate, dispersion }) => {
      const slo = slos.get(number);
      return slo === undefined ? [] : [{ name, rate, sloMs: slo / 1_000, dispersion }];
    });
    await divider.hear(loads, at);
  };
  // A report that can't be completed, because the store is away, is followed by another one in a few seconds.
  return new PlanWatch(store, (report) => void hear(report).catch(() => undefined));
}

async function runOnce(command: string, nats: ServingNats, options: UpOptions): Promise<void> {
  const env = {
    ...process.env,
    TUTTI_NATS: nats.url,
    ...(nats.credentials.admin !== undefined && { TUTTI_CREDS: nats.credentials.admin }),
    ...(options.tls !== undefined && { TUTTI_TLS_CA: options.tls.ca }),
  };
  const child = spawn(command, { shell: true, stdio: "inherit", env });
  const [code] = (await once(child, "exit")) as [number | null];
  process.exitCode = code ?? 1;
}

function announcerFor(json: boolean): Announcer {
  const { stdout } = process;
  const put = (text: string): void => void stdout.write(text);
  const terminal = stdout.isTTY ? { columns: () => stdout.columns, put } : undefined;
  return new Announcer({ json, write: (line) => put(`${line}\n`), terminal });
}
