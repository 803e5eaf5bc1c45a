import type { CostStep } from "@tutti/dynamic";
import type { Request } from "@tutti/scheduling";
import type { ActorKey, Instant, Micros, RequestSeq } from "@tutti/units";
import type { SimRequest } from "../cluster/simulated-cluster.ts";

/**
 * A request as the workload makes it. Tutti's cores use the same object, so that a million requests a second don't need
 * two objects each. Values that are the same for all requests lie on the prototype.
 */
export class ArrivedRequest implements SimRequest, Request {
  /** 0 until it arrives. */
  id: number;
  readonly model: number;
  readonly arrivedAt: Instant;
  readonly deadline: Instant;
  readonly slo: Micros;

  constructor(id: number, model: number, arrivedAt: Instant, slo: Micros) {
    this.id = id;
    this.model = model;
    this.arrivedAt = arrivedAt;
    this.deadline = (arrivedAt + slo) as Instant;
    this.slo = slo;
  }

  get ingress(): ActorKey {
    return 1 as ActorKey;
  }
  get seq(): RequestSeq {
    return this.id as RequestSeq;
  }
  get app(): number {
    return 0;
  }
  get size(): number {
    return 0;
  }
  get solo(): number {
    return 0;
  }
  get units(): number {
    return 0;
  }
  get steps(): readonly CostStep[] | undefined {
    return undefined;
  }
}

/** Values that a request for a dynamic model, or one with costs in steps, has of its own. */
export interface Particulars {
  readonly slo: Micros;
  readonly app: number;
  readonly solo: number;
  readonly units: number;
  readonly steps?: readonly CostStep[] | undefined;
}

/**
 * A request for a dynamic model, or one with costs in steps: it has its own values where other requests use those of
 * the prototype.
 */
export class ParticularRequest extends ArrivedRequest {
  readonly #app: number;
  readonly #solo: number;
  readonly #units: number;
  readonly #steps: readonly CostStep[] | undefined;

  constructor(id: number, model: number, arrivedAt: Instant, { slo, app, solo, units, steps }: Particulars) {
    super(id, model, arrivedAt, slo);
    this.#app = app;
    this.#solo = solo;
    this.#units = units;
    this.#steps = steps;
  }

  override get app(): number {
    return this.#app;
  }
  override get solo(): number {
    return this.#solo;
  }
  override get units(): number {
    return this.#units;
  }
  override get steps(): readonly CostStep[] | undefined {
    return this.#steps;
  }
}

/** A request as the cores see it where answers travel: its deadline is earlier. */
export class EarlierRequest implements Request {
  readonly origin: SimRequest;
  readonly deadline: Instant;
  readonly steps: readonly CostStep[] | undefined;

  /** @param steps - those of the request that the cores may know; their deadlines move as its own does */
  constructor(origin: SimRequest, respond: Micros, steps?: readonly CostStep[]) {
    this.origin = origin;
    this.steps = steps?.map(({ deadline, cost }) => ({ deadline: (deadline - respond) as Instant, cost }));
    this.deadline = (origin.deadline - respond) as Instant;
  }

  /** At its ingress, as in production: its thread hears of it later. */
  get arrivedAt(): Instant {
    return this.origin.arrivedAt;
  }
  get ingress(): ActorKey {
    return 1 as ActorKey;
  }
  get seq(): RequestSeq {
    return this.origin.id as RequestSeq;
  }
  get slo(): Micros {
    return this.origin.slo;
  }
  get app(): number {
    return this.origin.app;
  }
  get units(): number {
    return this.origin.units;
  }
  get size(): number {
    return 0;
  }
}
