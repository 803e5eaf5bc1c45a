import type { Request } from "@tutti/scheduling";
import type { ActorKey, Instant, Micros, RequestSeq } from "@tutti/units";
import type { SimRequest } from "./simulated-cluster.ts";

/**
 * A request as the workload makes it. It is also what Tutti's cores see of it, so that a million requests a second don't
 * need two objects each: what is the same for all of them lies on the prototype.
 */
export class ArrivedRequest implements SimRequest, Request {
  readonly id: number;
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
}

/** What the cores see of a request that travels, and whose answer does: it arrives later, its deadline is earlier. */
export class EarlierRequest implements Request {
  readonly origin: SimRequest;
  readonly arrivedAt: Instant;
  readonly deadline: Instant;

  constructor(origin: SimRequest, arrive: Micros, respond: Micros) {
    this.origin = origin;
    this.arrivedAt = (origin.arrivedAt + arrive) as Instant;
    this.deadline = (origin.deadline - respond) as Instant;
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
    return 0;
  }
  get size(): number {
    return 0;
  }
}
