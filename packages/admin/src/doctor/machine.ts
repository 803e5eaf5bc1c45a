/** Requirements for a machine, judged from facts that were read about it. */
import type { LatenessReport } from "@tutti/node/clock";
import { parseBytes } from "@tutti/units";
import type { Finding } from "./finding.ts";

export interface MachineFacts {
  /** "24.21.0". */
  readonly node: string;
  readonly cpus: number;
  /** The cgroup's CPU quota, in processors; undefined: there is none. */
  readonly cpuQuota: number | undefined;
  /** Load average of the last minute. */
  readonly load: number;
  readonly memoryBytes: number;
  readonly memoryFreeBytes: number;
  /** The cgroup's memory limit; undefined: there is none. */
  readonly memoryLimitBytes: number | undefined;
  /** Undefined: unlimited, or unknown. */
  readonly openFilesSoft: number | undefined;
  readonly openFilesHard: number | undefined;
  readonly store: { readonly folder: string; readonly freeBytes: number; readonly isInMemory: boolean };
}

const GIB = 2 ** 30;
/** Actors of all roles except the executors take about 0.1 GB each. */
const MEMORY_LEAST = 1.5 * GIB;
const DISK_LEAST = 0.2 * GIB;
const DISK_GOOD = 2 * GIB;
/**
 * An actor has three connections to NATS. An ingress has one more to each executor, and each publisher of the gateway
 * has one more.
 */
const FILES_LEAST = 256;
const FILES_GOOD = 4_096;
/** Lateness of timers beyond what deferral usually has to spare (docs/algorithms.md, A9). */
const LATE_US = 2_000;

const gib = (bytes: number): string => `${(bytes / GIB).toFixed(1)} GiB`;

export function judgeMachine(facts: MachineFacts): Finding[] {
  return [judgeNode(facts), judgeCpus(facts), judgeMemory(facts), judgeFiles(facts), judgeStore(facts)];
}

function judgeNode({ node }: MachineFacts): Finding {
  const [major = 0, minor = 0] = node.split(".").map(Number);
  const check = "Node";
  if (major > 24 || major === 24 || (major === 22 && minor >= 22)) return { check, state: "ok", found: node };
  return {
    check,
    state: "fail",
    found: `${node}; 24, or 22.22 and newer, runs Tutti`,
    why: "The sources are TypeScript, which older ones can't run as it is written.",
    next: "start it by `npm start` or bin/tutti, which bring Node 24 into the clone; or install Node 24",
  };
}

function judgeCpus({ cpus, cpuQuota, load }: MachineFacts): Finding {
  const check = "processors";
  const usable = Math.min(cpus, cpuQuota ?? cpus);
  const quota = cpuQuota === undefined ? "" : `, of which this control group may use ${cpuQuota.toFixed(1)}`;
  const found = `${cpus}${quota}; load ${load.toFixed(1)}`;
  if (usable < 2)
    return {
      check,
      state: "warn",
      found,
      why: "An executor on a processor takes all of one; ingress, ranker and batcher must be scheduled beside it within a millisecond.",
      next: "give it two at least, or put executors on other hosts (`tutti run executor`)",
    };
  if (cpuQuota !== undefined && cpuQuota < cpus)
    return {
      check,
      state: "warn",
      found,
      why: "At its quota a group is stopped for the rest of each period (100 ms as a rule): deadlines pass meanwhile. `tutti up` starts an executor for each processor but one, not for each of the quota.",
      next: `name --executors ${Math.max(1, Math.floor(cpuQuota) - 1)}, or pin processors (cpuset) instead of a quota`,
    };
  if (load > 0.75 * cpus)
    return {
      check,
      state: "warn",
      found,
      why: "Others use most of it: runs take longer than they were measured, and timers fire late.",
      next: "wait until they are done, or raise SLOs: figures that are taken now are about the others too",
    };
  return { check, state: "ok", found };
}

function judgeMemory({ memoryBytes, memoryFreeBytes, memoryLimitBytes }: MachineFacts): Finding {
  const check = "memory";
  const limit = memoryLimitBytes === undefined ? "" : `; this control group may have ${gib(memoryLimitBytes)}`;
  const found = `${gib(memoryFreeBytes)} of ${gib(memoryBytes)} free${limit}`;
  if (Math.min(memoryFreeBytes, memoryLimitBytes ?? Infinity) >= MEMORY_LEAST) return { check, state: "ok", found };
  return {
    check,
    state: "warn",
    found,
    why: "The actors take about a gigabyte together, and models come on top; who is killed for memory is started again, and its models with it.",
    next: "bound what executors hold (--memory 1GB), or run fewer of them (--executors 1)",
  };
}

function judgeFiles({ openFilesSoft, openFilesHard }: MachineFacts): Finding {
  const check = "file descriptors";
  const soft = openFilesSoft ?? Infinity;
  const found = soft === Infinity ? "not limited" : `${soft} per process (${openFilesHard ?? "no"} at most)`;
  if (soft >= FILES_GOOD) return { check, state: "ok", found };
  const can = openFilesHard === undefined || openFilesHard >= FILES_GOOD;
  return {
    check,
    state: soft < FILES_LEAST ? "fail" : "warn",
    found,
    why: "Each connection is one: an ingress has as many as there are executors, the NATS server three for each actor and one for each publisher.",
    next: can
      ? `\`ulimit -n ${FILES_GOOD}\` in the shell that starts it (LimitNOFILE= under systemd)`
      : "raise the hard limit (limits.conf, LimitNOFILE=)",
  };
}

function judgeStore({ store: { folder, freeBytes, isInMemory } }: MachineFacts): Finding {
  const check = "disk";
  const found = `${gib(freeBytes)} free where the store is (${folder})${isInMemory ? ", which is in memory" : ""}`;
  if (freeBytes < DISK_GOOD)
    return {
      check,
      state: freeBytes < DISK_LEAST ? "fail" : "warn",
      found,
      why: "JetStream keeps leases, plans, profiles and the models' files there; when it is full no model is loaded and no lease changes hands.",
      next: "make room, or name another folder in TUTTI_RUN_DIR",
    };
  if (!isInMemory) return { check, state: "ok", found };
  return {
    check,
    state: "note",
    found,
    why: "A restart of the machine forgets which models are served.",
    next: "name a folder on a disk in TUTTI_RUN_DIR",
  };
}

/** @param timers - lateness of the clock that actors use, at rest */
export function judgeTimers(timers: Pick<LatenessReport, "p50" | "p99">, loopP99Us: number): Finding {
  const check = "timers";
  const found = `late by ${timers.p50} µs in the median, ${timers.p99} µs in 99 of 100; the event loop by ${loopP99Us} µs`;
  if (timers.p99 <= LATE_US) return { check, state: "ok", found };
  return {
    check,
    state: "warn",
    found,
    why: "A batch is started as late as its deadline allows, less what timers are late: so much of every SLO is lost.",
    next: "stop what else runs here; on a virtual machine ask for processors of its own, on a laptop for full clock rate",
  };
}

/** Parses `cpu.max` of cgroup 2: "150000 100000" is 1.5 processors. */
export function cpuQuotaOf(text: string | undefined): number | undefined {
  const [quota = NaN, period = NaN] = (text ?? "").trim().split(/\s+/).map(Number);
  return quota > 0 && period > 0 ? quota / period : undefined;
}

/** Parses `memory.max` of cgroup 2. */
export function memoryLimitOf(text: string | undefined): number | undefined {
  const bytes = /^\d+$/.test((text ?? "").trim()) ? parseBytes(`${text!.trim()}B`) : undefined;
  return bytes === undefined || bytes > 2 ** 50 ? undefined : bytes;
}
