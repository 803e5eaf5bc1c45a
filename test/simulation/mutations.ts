/** Plausible bugs. Each is applied to a copy of the packages, and some seed must find it. */
export interface Mutation {
  readonly name: string;
  /** Path below packages/. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** The first seed to try: one that finds the bug, so that the suite stays short. It is a hint, not a promise. */
  readonly from?: number;
  /**
   * Whether each actor has a process and a host of its own, as in some seeds. The bug needs a broken connection, which
   * links make up for.
   */
  readonly isApart?: boolean;
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "the fence lets a sequence pass twice: < instead of <=",
    file: "executor/src/batches/fence.ts",
    find: `if (batch.grantSeq <= this.sequence(batch.gpu)) return "old-sequence";`,
    replace: `if (batch.grantSeq < this.sequence(batch.gpu)) return "old-sequence";`,
    from: 33,
  },
  {
    name: "no fence on the sequence of grants",
    file: "executor/src/batches/fence.ts",
    find: `if (batch.grantSeq <= this.sequence(batch.gpu)) return "old-sequence";`,
    replace: ``,
    from: 17,
  },
  {
    name: "no epoch check at the executor",
    file: "executor/src/batches/fence.ts",
    find: `if (batch.epoch !== this.#epoch) return "old-epoch";`,
    replace: ``,
    from: 379,
  },
  {
    name: "no term check at the executor",
    file: "executor/src/batches/fence.ts",
    find: `if (batch.term < (this.#terms.get(model) ?? 0)) return "old-term";`,
    replace: ``,
    from: 10,
  },
  {
    name: "batches are accepted after their grant's validity",
    file: "executor/src/batches/fence.ts",
    find: `if (now > batch.validUntil) return "expired";`,
    replace: ``,
    from: 46,
  },
  {
    name: "a batcher shows a model the grants of a leader that it has left",
    file: "actors/src/batcher/batcher.ts",
    find: `if (this.#router.isForeign(entry, grant, sender)) return`,
    replace: `if (at < 0) return`,
  },
  {
    name: "a batcher obeys a grant that was repeated on the way",
    file: "scheduling/src/model-thread/accepted-grants.ts",
    find: `if (counts && grantSeq <= newest.grantSeq) return false;`,
    replace: `if (counts && grantSeq < newest.grantSeq) return false;`,
    from: 26,
  },
  {
    name: "a batcher obeys grants that are over",
    file: "scheduling/src/model-thread/model-thread.ts",
    find: `if (grant.epoch < model.epoch || model.now > grant.validUntil) return false;`,
    replace: `if (grant.epoch < model.epoch) return false;`,
    from: 354,
  },
  {
    name: "lost put-back: the requests of a refused batch are forgotten",
    file: "scheduling/src/model-thread/model-thread.ts",
    find: `for (const request of model.inFlightBatches.takeBack(batchId) ?? []) {`,
    replace: `for (const request of (model.inFlightBatches.takeBack(batchId) ?? []).slice(0, 0)) {`,
    from: 15,
  },
  {
    name: "no invalidation timer",
    file: "scheduling/src/batches/candidate.ts",
    find: `model.wakeAt = b === 0 ? NEVER :`,
    replace: `model.wakeAt = b >= 0 ? NEVER :`,
  },
  {
    name: "no filter for repeated arrivals",
    file: "actors/src/batcher/arrivals.ts",
    find: `const verdict = order.note(sender, arrival.thread, arrival.term, arrival.arrivalSeq);`,
    replace: `const noted = order.note(sender, arrival.thread, arrival.term, arrival.arrivalSeq);
    const verdict = noted === "repeated" ? "fresh" : noted;`,
    from: 10,
  },
  {
    name: "no timer at the ingress",
    file: "ingress/src/requests/request-settlement.ts",
    find: `    this.#timer.set(next);`,
    replace: ``,
    from: 2,
  },
  {
    name: "rows of a batch are answered in the wrong order",
    file: "executor/src/batches/run.ts",
    find: `row: at, rows: batchSize`,
    replace: `row: batchSize - 1 - at, rows: batchSize`,
  },
  {
    name: "an ingress that is stopped does not wait for its answers",
    file: "ingress/src/ingress.ts",
    find: `if (underway === 0) this.#drained?.();`,
    replace: `this.#drained?.();`,
    from: 58,
  },
  {
    name: "what was to be answered while the connection was away is not sent when it is back",
    file: "ingress/src/requests/unacked-replies.ts",
    find: `const again = [...this.#passing, ...this.#confirming, ...this.#open];`,
    replace: `const again = [...this.#passing, ...this.#confirming];`,
    from: 47,
  },
  {
    name: "requests are not sent again when a lease moves",
    file: "ingress/src/requests/arrival-streams.ts",
    find: `if (held.executor === 0 || held.isCarried || !isAlive(held.executor)) this.arrive(held, lease);`,
    replace: `if (held.executor !== 0 && !isAlive(held.executor)) this.arrive(held, lease);`,
    from: 54,
  },
  {
    name: "the answer to the last asking for a lost arrival is dropped",
    file: "actors/src/batcher/arrival-order.ts",
    find: `    gap.askings++;`,
    replace: `    if (++gap.askings > 1) lane.gaps.shift();`,
    from: 393,
  },
  {
    name: "a lease that moves has the requests told twice that come under its new term",
    file: "ingress/src/requests/arrival-streams.ts",
    find: `    for (const held of this.#pending.values()) {
      if (modelNumberOf(held.thread) !== model.spec.number) continue;`,
    replace: `    for (const held of [...this.#pending.values(), ...this.#pending.values()]) {
      if (modelNumberOf(held.thread) !== model.spec.number) continue;`,
    from: 25,
  },
  {
    name: "batchers that do not hear each other take their models from one another",
    file: "actors/src/batcher/ownership/model-leases.ts",
    find: `return goneAt !== undefined && goneAt >= since ? now : after(since, this.#options.peerTimeout);`,
    replace: `return now;`,
    from: 194,
  },
  {
    name: "nobody ends a run that never ends",
    file: "executor/src/batches/watched-engine.ts",
    find: `if (late > STALL && (late >= job.limit || job.renewals++ < RENEWALS)) this.#startedAt = now;`,
    replace: `this.#startedAt = now;`,
    from: 48,
  },
  {
    name: "the server's word that a peer is gone is not believed",
    file: "actors/src/runtime/peer-probes.ts",
    find: `if (this.#options.registry.wasHeardHere(key)) this.#options.registry.lose(key);`,
    replace: `if (this.#options.registry.wasHeardHere(key)) return;`,
    from: 54,
  },
  {
    name: "an ingress that is stopped does not take what was on its way to it",
    file: "ingress/src/ingress.ts",
    find: `else this.#requests.drain(wait);`,
    replace: `else {
      this.#requests.stop();
      wait();
    }`,
    from: 58,
  },
  {
    name: "the connection's copy of a broadcast that a link brings is heard too",
    file: "ports/src/bus/link-routes.ts",
    find: `return carriers !== undefined && carriers.split(",").some((id) => this.#ids.has(id));`,
    replace: `return false;`,
    from: 16,
  },
  {
    name: "a broadcast is heard once more when its link has ended",
    file: "ports/src/bus/link-routes.ts",
    find: `if (this.#endedIds.length > ENDED_KEPT)`,
    replace: `if (this.#endedIds.length > 0)`,
    from: 16,
  },
  {
    name: "messages of one process overtake those that wait for the end of the turn",
    file: "ports/src/bus/host-bus.ts",
    find: `    this.#queue.push({ to, delivery });
    if (this.#isDraining) return;`,
    replace: `    if (this.#isDraining) return to.bus.deliver(to, delivery);
    this.#queue.push({ to, delivery });`,
    from: 12,
  },
  {
    name: "messages that have waited for a link are lost",
    file: "ports/src/bus/link-routes.ts",
    find: `for (const { message } of link.waiting) link.tell(message);`,
    replace: ``,
    from: 287,
  },
  {
    name: "a batch that cannot be sent with its rows is not sent at all",
    file: "actors/src/batcher/dispatcher.ts",
    find: `if (carrier?.carry(message, this.#self) !== true)`,
    replace: `if (carrier?.carry(message, this.#self) === undefined)`,
    from: 7,
  },
  {
    name: "a full accelerator is offered again at once",
    file: "executor/src/batches/batch-intake.ts",
    find: `return slot.turnAway(now, between(grantedAt, startAt), expectedRun);`,
    replace: `return slot.freeAt(now);`,
    from: 494,
  },
  {
    name: "a model that nobody asks for leaves its executors before every ingress knows",
    file: "planning/src/placement/parking.ts",
    find: `if (between(since, now) >= LEAVES_AFTER) unplaced.add(number);`,
    replace: `unplaced.add(number);`,
    from: 3_000_007,
  },
  {
    name: "requests of a pipeline's stages outlive the answer to the whole",
    file: "ingress/src/pipelines/pipeline-run.ts",
    find: `    if (ticket.held !== undefined) this.#ports.withdraw(ticket.held);`,
    replace: ``,
    from: 3_000_002,
  },
  {
    name: "an ingress says that it has as many requests to pipelines as it takes when it has half of them",
    file: "ingress/src/pipelines/pipeline-runner.ts",
    find: `if (this.#runs.size >= this.#instancesMax)`,
    replace: `if (this.#runs.size >= this.#instancesMax / 2)`,
    from: 3_000_004,
  },
  {
    name: "half an accelerator serves while the whole one still does",
    file: "executor/src/batches/standby-gate.ts",
    find: `return this.#isHeld;`,
    replace: `return false;`,
    from: 3_000_072,
  },
  {
    name: "a model loads while one that leaves is still there",
    file: "executor/src/models/model-residency.ts",
    find: `{ max: memoryBytesMax, leaving }`,
    replace: `{ max: memoryBytesMax, leaving: 0 }`,
    from: 3_100_005,
  },
];
