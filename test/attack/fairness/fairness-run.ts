/** Floods a system as one application, one kind of body after the other, and looks what another application notices. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import type { AttackedSystem, Size } from "../attack.ts";
import { memoryOfChildren } from "../attacks/media.ts";
import { pause } from "../clients/http.ts";
import { startSystem } from "../systems.ts";
import { memoryOf } from "../witness.ts";
import type { Target } from "./doors.ts";
import type { FloodReport } from "./flood-process.ts";
import type { Kind } from "./kinds.ts";
import { Neighbour } from "./neighbour.ts";
import { turnsBetween } from "./turns.ts";
import { type Holdings, type KindResult, type Rest, isBack, resultOf } from "./verdict.ts";

export interface FairnessOptions {
  readonly kinds: readonly Kind[];
  readonly size: Size;
  readonly onResult?: (result: KindResult) => void;
}

const FLOOD_MS: Readonly<Record<Size, number>> = { short: 3_000, long: 15_000 };
/** In which everything must be given back. */
const REST_MS = 10_000;
/** At rest, before the first flood: the code is compiled and the model's profile known. */
const WARM_MS: Readonly<Record<Size, number>> = { short: 2_000, long: 5_000 };
const WEIGH_MS = 100;

export async function fairnessRun({ kinds, size, onResult }: FairnessOptions): Promise<KindResult[]> {
  const results: KindResult[] = [];
  let scene: Scene | undefined;
  try {
    for (const kind of kinds) {
      scene ??= await Scene.start(size);
      const result = await scene.flood(kind);
      results.push(result);
      onResult?.(result);
      // A kind's leavings must not be blamed on the next.
      if (result.broken.length === 0) continue;
      await scene.stop();
      scene = undefined;
    }
    return results;
  } finally {
    await scene?.stop();
  }
}

/** A system with the other application, which has asked for a while. */
class Scene {
  readonly #system: AttackedSystem;
  readonly #neighbour: Neighbour;
  readonly #rest: Rest;
  readonly #size: Size;

  private constructor(system: AttackedSystem, neighbour: Neighbour, size: Size) {
    this.#system = system;
    this.#neighbour = neighbour;
    this.#rest = { asked: [...neighbour.asked], held: holdingsOf(system) };
    this.#size = size;
  }

  static async start(size: Size): Promise<Scene> {
    const system = await startSystem("tenants");
    try {
      const neighbour = await Neighbour.start(targetOf(system, "b"));
      await pause(WARM_MS[size]);
      return new Scene(system, neighbour, size);
    } catch (error) {
      await system.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.#neighbour.stop();
    await this.#system.stop();
  }

  async flood(kind: Kind): Promise<KindResult> {
    const [system, neighbour, rest] = [this.#system, this.#neighbour, this.#rest];
    const flood = await FloodProcess.start(kind.name, targetOf(system, "a"));
    const fromMs = Date.now();
    const peak = { node: 0, children: 0, server: 0, descriptors: 0 };
    const weigh = (): Holdings => {
      const held = holdingsOf(system);
      for (const key of Object.keys(peak) as (keyof Holdings)[]) peak[key] = Math.max(peak[key], held[key]);
      return held;
    };
    const weighing = setInterval(weigh, WEIGH_MS);
    flood.begin();
    await pause(FLOOD_MS[this.#size]);
    const toMs = Date.now();
    const sent = await flood.stop();
    const endedMs = Date.now();
    const look = (): boolean => isBack(weigh(), neighbour.asked, rest, endedMs);
    while (!look() && Date.now() - endedMs < REST_MS) await pause(WEIGH_MS);
    clearInterval(weighing);
    const backMs = Date.now() - endedMs;
    const held = weigh();
    return resultOf({
      ...{ kind, sent, rest, peak, held, backMs, seconds: (toMs - fromMs) / 1_000 },
      isBack: isBack(held, neighbour.asked, rest, endedMs),
      asked: neighbour.asked.filter(({ atMs }) => atMs >= fromMs && atMs <= toMs),
      turns: turnsBetween(system.tenants!.turnsFile, system.pid, fromMs, endedMs),
    });
  }
}

const targetOf = ({ http, grpc, nats, keys, credentialsOf }: AttackedSystem, app: "a" | "b"): Target => ({
  ...{ http, grpc, nats, key: keys![app], credentials: credentialsOf(`app-${app}`) },
});

class FloodProcess {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** Resolves once the bodies are made. */
  static async start(kind: string, target: Target): Promise<FloodProcess> {
    const child = fork(new URL("./flood-process.ts", import.meta.url), { execArgv: [] });
    child.send({ kind, target });
    await once(child, "message");
    return new FloodProcess(child);
  }

  begin(): void {
    this.#child.send("begin");
  }

  async stop(): Promise<FloodReport> {
    this.#child.send("stop");
    const [report] = (await once(this.#child, "message")) as [FloodReport];
    return report;
  }
}

/** Holdings of the system's processes now. */
const holdingsOf = ({ pid, tenants }: AttackedSystem): Holdings => ({
  node: memoryOf(pid),
  children: memoryOfChildren(pid),
  server: memoryOf(tenants!.serverPid),
  descriptors: readdirSync(`/proc/${pid}/fd`).length,
});
