/** Jobs and requests side by side in a virtual cluster: what runs, and what the requests notice of it. */
import { StatsReported, subjectsOf } from "@tutti/protocol";
import { type Instant, type Micros, after, millis, seconds } from "@tutti/units";
import { FrameReader } from "@tutti/wire";
import { VirtualCluster } from "./virtual-cluster.ts";
import type { Asked, VirtualClusterOptions } from "./virtual-cluster-options.ts";

/** How long after its deadline a job without an answer is sent again: its ingress has died. */
const GRACE: Micros = millis(200);
export const LOOK_EVERY: Micros = millis(5);

interface Waiting {
  readonly value: number;
  asked: Asked;
}

/** A sender of jobs that keeps some in flight, and sends each again until it is answered. */
export class JobRunner {
  /** Jobs that were answered. */
  answered = 0;
  /** Answers with the outputs of another job. */
  wrong = 0;
  retries = 0;
  #sent = 0;
  readonly #options: { readonly cluster: VirtualCluster; readonly model: string; readonly jobMs: number };
  readonly #waiting = new Set<Waiting>();

  constructor(options: { readonly cluster: VirtualCluster; readonly model: string; readonly jobMs: number }) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.size;
  }
  get sent(): number {
    return this.#sent;
  }

  /** Sends jobs until so many are in flight, and those again that were not answered. */
  look(inFlight: number): void {
    const at = this.#options.cluster.clock.now();
    for (const job of this.#waiting) {
      const answer = job.asked.outcomes[0];
      if (answer === undefined && at <= after(job.asked.deadline, GRACE)) continue;
      if (answer?.status !== "ok") {
        this.retries++;
        job.asked = this.#ask(job.value);
        continue;
      }
      if (answer.value !== job.value) this.wrong++;
      this.#waiting.delete(job);
      this.answered++;
    }
    while (this.#waiting.size < inFlight) {
      const value = ++this.#sent;
      this.#waiting.add({ value, asked: this.#ask(value) });
    }
  }

  #ask(value: number): Asked {
    const { cluster, model, jobMs } = this.#options;
    return cluster.ask(model, { isJob: true, sloMs: jobMs, value });
  }
}

interface SharedTime {
  /** Shares of the accelerators' time. */
  readonly used: number;
  readonly jobs: number;
  /** Share of the requests that was not answered in time. */
  readonly bad: number;
  readonly p99Ms: number;
  readonly requests: number;
  readonly jobsPerSecond: number;
}

/** Requests at that rate for a while, with jobs beside them or without. */
export function shareTime(options: {
  readonly model: Parameters<VirtualCluster["addModel"]>[0];
  readonly cluster: VirtualClusterOptions & { readonly gpus: number };
  readonly rate: number;
  readonly duration: Micros;
  /** In flight; 0: none. */
  readonly jobs: number;
}): SharedTime {
  const { model, rate, duration, jobs } = options;
  const cluster = new VirtualCluster(options.cluster);
  cluster.addModel(model);
  cluster.run(seconds(2));
  const busy = busyTimes(cluster);
  const runner = new JobRunner({ cluster, model: model.name, jobMs: 600_000 });
  const during = (time: Micros): Asked[] => {
    const asked: Asked[] = [];
    const end: Instant = after(cluster.clock.now(), time);
    while (cluster.clock.now() < end) {
      runner.look(jobs);
      asked.push(...cluster.load(model.name, { rate, duration: LOOK_EVERY, sloMs: model.sloMs }));
    }
    return asked;
  };
  during(seconds(2)); // rates and burstiness are measured over seconds
  const [before, answered, from] = [busy(), runner.answered, cluster.clock.now()];
  const asked = during(duration);
  const [since, time] = [busy(), (cluster.clock.now() - from) * options.cluster.gpus];
  const jobsPerSecond = ((runner.answered - answered) * 1e6) / duration;
  cluster.run(millis(2 * model.sloMs));
  const inTime = asked.filter(({ outcomes: [first], deadline }) => first?.status === "ok" && first.at <= deadline);
  const latencies = inTime.map(({ at, outcomes: [first] }) => first!.at - at).sort((a, b) => a - b);
  return {
    used: (since.busyUs - before.busyUs) / time,
    jobs: (since.jobsUs - before.jobsUs) / time,
    bad: 1 - inTime.length / asked.length,
    p99Ms: (latencies[Math.ceil(0.99 * latencies.length) - 1] ?? NaN) / 1_000,
    requests: asked.length,
    jobsPerSecond,
  };
}

/** The time that accelerators have run so far, by their executors' last reports. */
function busyTimes(cluster: VirtualCluster): () => { readonly busyUs: number; readonly jobsUs: number } {
  const gpus = new Map<number, Readonly<Record<string, number>>>();
  const reader = new FrameReader().on(StatsReported, ({ perGpu = [] }) => {
    for (const { gpu, figures } of perGpu) gpus.set(gpu, figures);
  });
  const listener = cluster.network.connect({ name: "busy-times" });
  listener.subscribe(subjectsOf("main").stats("executor"), ({ payload }) => void reader.read(payload));
  const sum = (name: string): number => [...gpus.values()].reduce((all, figures) => all + (figures[name] ?? 0), 0);
  return () => ({ busyUs: sum("busyUs"), jobsUs: sum("jobsUs") });
}
