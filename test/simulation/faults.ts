/** Makes happen what a plan says, and ends it all. */
import { type Cluster, type Running } from "./cluster.ts";
import type { Checkers } from "./checkers.ts";
import type { Host } from "./host.ts";
import type { Cut } from "./links.ts";
import type { Action, Plan } from "./plan.ts";
import { hasRollout } from "./rollouts.ts";

/** A client that lost its server tries again at moments of its own. */
const RECONNECT_US_MAX = 20_000;

export class Faults {
  readonly #plan: Plan;
  readonly #cluster: Cluster;
  readonly #checkers: Checkers;
  readonly #draining = new Map<string, Host>();

  constructor(plan: Plan, cluster: Cluster, checkers: Checkers) {
    this.#plan = plan;
    this.#cluster = cluster;
    this.#checkers = checkers;
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
        return cluster.hangNext(this.#plan.models[action.model]!.name);
      case "place":
        return cluster.place(action.placing);
      case "share":
        return cluster.share(action.percent, action.isShadow);
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

  /** Somebody who was told to leave is on the way out still, or back. */
  get isUnderWay(): boolean {
    const { running, slots } = this.#cluster;
    const leaving = [...this.#draining].some(([slot, host]) => running.get(slot)?.host === host);
    return leaving || slots.some((slot) => !running.has(slot));
  }

  #kill(slot: string, backAfterUs: number): void {
    const host = this.#cluster.running.get(slot)?.host;
    if (host !== undefined) this.#checkers.takeovers.killed(host.key);
    this.#cluster.kill(slot);
    this.#cluster.later(backAfterUs, () => this.#isFaulty && this.#cluster.start(slot));
  }

  #closeStore(forUs: number): void {
    this.#cluster.store.available = false;
    this.#cluster.later(forUs, () => (this.#cluster.store.available = true));
  }

  /** Everybody is disconnected at once, publishers too, and what was under way is lost. */
  #restartServer(forUs: number): void {
    const cluster = this.#cluster;
    this.#closeStore(forUs);
    cluster.serverAway = true;
    for (const entry of cluster.running.values()) {
      this.#breakAll(entry);
      cluster.later(forUs + 1 + cluster.draw(RECONNECT_US_MAX), () => this.#reconnect(entry));
    }
    cluster.disconnectPublishers();
    cluster.later(forUs, () => {
      cluster.serverAway = false;
      cluster.reconnectPublishers();
    });
  }
  #breakAll({ host, buses }: Running): void {
    host.bulkAway = true;
    for (const bus of buses) bus.disconnect("unconfirmed");
  }

  /** @param backAfterUs - undefined: not before faults stop */
  #drain(slot: string, backAfterUs: number | undefined): void {
    const entry = this.#cluster.running.get(slot);
    // Who was told to leave and was killed instead leaves no more; its successor may.
    if (entry === undefined || this.#draining.get(slot) === entry.host) return;
    this.#draining.set(slot, entry.host);
    // What is on its way to an ingress when it stops is its business still (T9).
    if (this.#plan.calm && slot.startsWith("ingress"))
      for (const model of this.#plan.models) for (let i = 0; i < 3; i++) this.#cluster.ask(model, model.sloMs);
    const done = (): void => {
      if (this.#draining.get(slot) === entry.host) this.#draining.delete(slot);
      if (!entry.host.alive) return;
      this.#cluster.kill(slot);
      if (backAfterUs !== undefined || !this.#isFaulty)
        this.#cluster.later(backAfterUs ?? 1_000, () => this.#cluster.start(slot));
    };
    entry.host.perform(() => entry.actor.drain(done));
  }

  #pause(slot: string, forUs: number): void {
    const host = this.#cluster.running.get(slot)?.host;
    if (host === undefined || host.paused) return;
    host.paused = true;
    this.#cluster.later(forUs, () => this.#wake(slot));
  }
  #wake(slot: string): void {
    const host = this.#cluster.running.get(slot)?.host;
    if (host?.paused !== true) return;
    this.#checkers.note(`${host.name} wakes`);
    host.wake(this.#cluster.now);
  }

  #partition(slots: readonly string[], hearing: boolean): Cut {
    const inside = new Set(slots);
    const outside = new Set([...this.#cluster.slots, "store"].filter((slot) => !inside.has(slot)));
    const block = { from: outside, to: inside };
    return hearing ? [block] : [block, { from: inside, to: outside }];
  }

  #usurpation(slot: string): Cut {
    const of = (role: string, but = ""): Set<string> =>
      new Set(this.#cluster.slots.filter((one) => one.startsWith(role) && one !== but));
    const old = new Set([slot]);
    const role = slot.startsWith("ranker") ? "ranker" : "batcher";
    const cut = [
      { from: old, to: of(role, slot) },
      { from: new Set(["store"]), to: old },
      { from: of(role, slot), to: old },
    ];
    // Who acts on their word: batchers on a ranker's, rankers on a batcher's.
    return [...cut, { from: of(role, slot), to: of(role === "ranker" ? "batcher" : "ranker") }];
  }

  #cut(cut: Cut, forUs: number): void {
    this.#cluster.links.cut(cut);
    this.#cluster.later(forUs, () => {
      this.#cluster.links.mend(cut);
      this.#cluster.showHeld();
    });
  }

  #disconnect({ slot, which, forUs }: Extract<Action, { kind: "disconnect" }>): void {
    const entry = this.#cluster.running.get(slot);
    if (entry === undefined) return;
    if (which !== "bulk") entry.buses[0]?.disconnect();
    if (which !== "control") {
      entry.host.bulkAway = true;
      entry.buses[1]?.disconnect("unconfirmed");
    }
    this.#cluster.later(forUs, () => this.#reconnect(entry));
  }
  /** A stopped process connects again when it wakes. */
  #reconnect({ host, buses }: Running): void {
    host.perform(() => {
      if (this.#cluster.serverAway) return;
      if (host.bulkAway) host.bulkBackAt = this.#cluster.now;
      host.bulkAway = false;
      for (const bus of buses) bus.reconnect();
    });
  }

  stop(): void {
    this.#checkers.note("faults stop");
    const cluster = this.#cluster;
    cluster.links.heal();
    cluster.enginesFaulty = false;
    cluster.store.available = true;
    cluster.serverAway = false;
    cluster.showHeld();
    for (const [slot, entry] of [...cluster.running]) {
      this.#wake(slot);
      this.#reconnect(entry);
    }
    cluster.reconnectPublishers();
    for (const slot of cluster.slots) cluster.start(slot);
    if (this.#plan.placings !== undefined) cluster.place(this.#plan.placings.last);
    if (hasRollout(this.#plan)) cluster.share(0, false);
  }
}
