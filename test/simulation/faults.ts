/** Injects the faults of a plan, and ends them all. */
import { drainInOrder } from "@tutti/actors";
import type { Process } from "../fixtures/actor-cluster/process.ts";
import type { RunningProcess } from "../fixtures/actor-cluster/processes.ts";
import type { Cluster } from "./cluster.ts";
import type { Checkers } from "./checkers.ts";
import { loadedNameOf } from "./families.ts";
import type { Cut } from "./links.ts";
import { Parts } from "./parts.ts";
import type { Action, Plan } from "./plan.ts";
import { hasRollout } from "./rollouts.ts";

/** Longest delay until a client that lost its server connects again; each draws its own. */
const RECONNECT_US_MAX = 20_000;

export class Faults {
  readonly #plan: Plan;
  readonly #cluster: Cluster;
  readonly #checkers: Checkers;
  readonly #draining = new Set<Process>();

  constructor(plan: Plan, cluster: Cluster, checkers: Checkers) {
    this.#plan = plan;
    this.#cluster = cluster;
    this.#checkers = checkers;
    if (plan.hasParts === true) cluster.parts = new Parts(cluster, (slot) => this.#drain(slot, undefined));
  }

  perform(action: Action): void {
    const cluster = this.#cluster;
    this.#checkers.note(JSON.stringify(action, (_, value: unknown) => value));
    switch (action.kind) {
      case "kill":
        return this.#kill(action.slot, action.backAfterUs);
      case "drain":
        return this.#drain(action.slot, action.backAfterUs);
      case "pause":
        return this.#pause(action.slot, action.forUs);
      case "cut":
        return this.#cut(this.#partition(action.slots, action.hearing), action.forUs);
      case "usurp":
        return this.#cut(this.#usurpation(action.slot), action.forUs);
      case "disconnect":
        return this.#disconnect(action);
      case "break-links": {
        const entry = cluster.running.get(action.slot);
        return entry && cluster.hostLinks.breakLinks(entry.in.process);
      }
      case "freeze":
        return this.#freeze(action.slots, action.forUs);
      case "store-out":
        return this.#closeStore(action.forUs);
      case "headless":
        this.#closeStore(action.forUs);
        return this.#kill(action.slot, 2 * action.forUs);
      case "server-restart":
        return this.#restartServer(action.forUs);
      case "join":
        return cluster.start(action.slot);
      case "leave":
        return this.#drain(action.slot, undefined);
      case "hang":
        return cluster.engines.hangNext(loadedNameOf(this.#plan, action.model));
      case "place":
        return cluster.place(action.placing);
      case "share":
        return cluster.share(action.percent, action.isShadow);
      case "divide":
        return cluster.parts?.divide();
      case "junk":
        return cluster.junk();
      case "burst": {
        const model = this.#plan.models[action.model]!;
        for (let i = 0; i < action.count; i++) cluster.ask(model, model.sloMs);
      }
    }
  }
  get #isFaulty(): boolean {
    return this.#cluster.links.faulty;
  }

  /** Whether a process that was told to leave, or whose engine hangs, still ends, or isn't back yet. */
  get isUnderWay(): boolean {
    const { running, slots, engines, parts } = this.#cluster;
    const isMissing = (slot: string): boolean => !running.has(slot) && parts?.isAway(slot) !== true;
    const leaving = [...this.#draining].some(({ alive }) => alive);
    return leaving || engines.isEnding || parts?.isUnderWay === true || slots.some(isMissing);
  }

  #kill(slot: string, backAfterUs: number): void {
    for (const { incarnation } of this.#cluster.running.get(slot)?.in.actors ?? [])
      this.#checkers.takeovers.killed(incarnation.key);
    this.#cluster.kill(slot);
    this.#cluster.later(backAfterUs, () => this.#isFaulty && this.#cluster.start(slot));
  }

  #closeStore(forUs: number): void {
    this.#cluster.store.available = false;
    this.#cluster.later(forUs, () => (this.#cluster.store.available = true));
  }

  /** Disconnects all clients at once, publishers too; messages under way are lost. */
  #restartServer(forUs: number): void {
    const cluster = this.#cluster;
    this.#closeStore(forUs);
    cluster.serverAway = true;
    for (const entry of cluster.processes) {
      this.#breakAll(entry);
      cluster.later(forUs + 1 + cluster.draw(RECONNECT_US_MAX), () => this.#reconnect(entry));
    }
    cluster.disconnectPublishers();
    cluster.later(forUs, () => {
      cluster.serverAway = false;
      cluster.reconnectPublishers();
    });
  }
  #breakAll({ process, connections }: RunningProcess): void {
    process.bulkAway = true;
    for (const connection of connections) connection.disconnect("unconfirmed");
  }

  /** @param backAfterUs - undefined: not before faults stop */
  #drain(slot: string, backAfterUs: number | undefined): void {
    const entry = this.#cluster.running.get(slot)?.in;
    // A process that was told to leave isn't told again, even if it is killed instead; its successor may be.
    if (entry === undefined || this.#draining.has(entry.process)) return;
    const { process, actors } = entry;
    this.#draining.add(process);
    // An ingress still answers requests that are under way when it stops (T9).
    if (this.#plan.calm && actors.some(({ actor }) => actor.role === "ingress"))
      for (const model of this.#plan.models) for (let i = 0; i < 3; i++) this.#cluster.ask(model, model.sloMs);
    const done = (): void => {
      this.#draining.delete(process);
      if (!process.alive) return;
      this.#cluster.kill(slot);
      if (backAfterUs !== undefined || !this.#isFaulty)
        this.#cluster.later(backAfterUs ?? 1_000, () => this.#cluster.start(slot));
    };
    process.perform(() =>
      drainInOrder(
        actors.map(({ actor }) => actor),
        done,
      ),
    );
  }

  #pause(slot: string, forUs: number): void {
    const process = this.#cluster.running.get(slot)?.in.process;
    if (process === undefined || process.paused) return;
    process.paused = true;
    this.#cluster.later(forUs, () => this.#wake(slot));
  }
  #wake(slot: string): void {
    const process = this.#cluster.running.get(slot)?.in.process;
    if (process?.paused !== true) return;
    this.#checkers.note(`${process.name} wakes`);
    process.wake(this.#cluster.now);
  }

  /** A cut between processes: messages within a process or over a link need no network. */
  #partition(slots: readonly string[], hearing: boolean): Cut {
    const inside = new Set(slots.map((slot) => this.#cluster.processOf(slot)));
    const all = this.#cluster.slots.map((slot) => this.#cluster.processOf(slot));
    const outside = new Set([...all, "store"].filter((name) => !inside.has(name)));
    const block = { from: outside, to: inside };
    return hearing ? [block] : [block, { from: inside, to: outside }];
  }

  #usurpation(slot: string): Cut {
    const usurped = this.#cluster.processOf(slot);
    const of = (role: string): Set<string> => {
      const slots = this.#cluster.slots.filter((one) => one.startsWith(role));
      return new Set(slots.map((one) => this.#cluster.processOf(one)).filter((name) => name !== usurped));
    };
    const old = new Set([usurped]);
    const role = slot.startsWith("ranker") ? "ranker" : "batcher";
    const cut = [
      { from: old, to: of(role) },
      { from: new Set(["store"]), to: old },
      { from: of(role), to: old },
    ];
    // The roles that act on the usurped actor's messages: batchers for a ranker, rankers for a batcher.
    return [...cut, { from: of(role), to: of(role === "ranker" ? "batcher" : "ranker") }];
  }

  #cut(cut: Cut, forUs: number): void {
    this.#cluster.links.cut(cut);
    this.#cluster.later(forUs, () => {
      this.#cluster.links.mend(cut);
      this.#cluster.showHeld();
    });
  }

  #freeze(slots: readonly string[], forUs: number): void {
    const names = new Set(slots.map((slot) => this.#cluster.processOf(slot)));
    const frozen = this.#cluster.processes.filter(({ process }) => names.has(process.name));
    for (const { process } of frozen) process.freeze();
    const [inside, store] = [new Set(frozen.map(({ process }) => process.name)), new Set(["store"])];
    this.#cut(
      [
        { from: inside, to: store },
        { from: store, to: inside },
      ],
      forUs,
    );
    this.#cluster.later(forUs, () => frozen.forEach((entry) => this.#thaw(entry)));
  }
  #thaw({ process }: RunningProcess): void {
    if (!process.isFrozen) return;
    this.#checkers.note(`the server of ${process.name} answers again`);
    process.thaw();
  }

  #disconnect({ slot, which, forUs }: Extract<Action, { kind: "disconnect" }>): void {
    const entry = this.#cluster.running.get(slot)?.in;
    if (entry === undefined) return;
    const [control, bulk] = entry.connections;
    if (which !== "bulk") control.disconnect();
    if (which !== "control") {
      entry.process.bulkAway = true;
      bulk.disconnect("unconfirmed");
    }
    this.#cluster.later(forUs, () => this.#reconnect(entry));
  }
  /** Reconnects a process; a stopped one connects again when it wakes. */
  #reconnect({ process, connections }: RunningProcess): void {
    process.perform(() => {
      if (this.#cluster.serverAway) return;
      if (process.bulkAway) process.bulkBackAt = this.#cluster.now;
      process.bulkAway = false;
      for (const connection of connections) connection.reconnect();
    });
  }

  stop(): void {
    this.#checkers.note("faults stop");
    const cluster = this.#cluster;
    cluster.links.heal();
    cluster.hostLinks.world.faulty = false;
    cluster.engines.last = false;
    cluster.store.available = true;
    cluster.serverAway = false;
    cluster.showHeld();
    for (const entry of cluster.processes) this.#thaw(entry);
    for (const slot of [...cluster.running.keys()]) this.#wake(slot);
    for (const entry of cluster.processes) this.#reconnect(entry);
    cluster.reconnectPublishers();
    for (const slot of cluster.slots) cluster.start(slot);
    if (this.#plan.placings !== undefined) cluster.place(this.#plan.placings.last);
    if (hasRollout(this.#plan)) cluster.share(0, false);
  }
}
