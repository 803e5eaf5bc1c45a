import type { Bus, Delivery, ServiceInfo, Subscription } from "./bus.ts";

/**
 * Answers the NATS services protocol (ADR-32) for an actor, so that `nats micro ls|info|stats` finds it. The subjects
 * are `$SRV.<verb>`, `$SRV.<verb>.<name>` and `$SRV.<verb>.<name>.<id>`, with the verbs PING, INFO and STATS. It needs
 * only the port's publish and subscribe, and every Bus needs the same answers.
 */
export function answerServices(bus: Bus, service: ServiceInfo, startedAt: Date): Subscription {
  const encoder = new TextEncoder();
  const answers = (verb: Verb) => (delivery: Delivery) => {
    // The server checks no permission on a reply subject: without this check, anyone who may ask could make us publish
    // to any subject of the cluster.
    if (delivery.reply === undefined || !INBOX.test(delivery.reply)) return;
    bus.publish(delivery.reply, encoder.encode(JSON.stringify(answerOf(verb, service, startedAt))));
  };
  const subscriptions = VERBS.flatMap((verb) =>
    serviceSubjects(verb, service).map((subject) => bus.subscribe(subject, answers(verb))),
  );
  return { stop: () => subscriptions.forEach((subscription) => subscription.stop()) };
}

/** Inboxes of outside clients (`_INBOX.`) and of roles (`_INBOX_<role>`). */
const INBOX = /^_INBOX[._]/;

export const VERBS = ["PING", "INFO", "STATS"] as const;
export type Verb = (typeof VERBS)[number];

export const serviceSubjects = (
  verb: Verb,
  service: { readonly name: string; readonly id: string },
): readonly string[] => [`$SRV.${verb}`, `$SRV.${verb}.${service.name}`, `$SRV.${verb}.${service.name}.${service.id}`];

export interface PingAnswer {
  readonly type: string;
  readonly name: string;
  readonly id: string;
  readonly version: string;
  readonly metadata: Readonly<Record<string, string>>;
}
export interface StatsAnswer extends PingAnswer {
  readonly started: string;
  readonly endpoints: readonly { readonly num_requests: number; readonly data: Readonly<Record<string, number>> }[];
}

function answerOf(verb: Verb, service: ServiceInfo, startedAt: Date): PingAnswer | StatsAnswer {
  const identity = {
    type: `io.nats.micro.v1.${verb.toLowerCase()}_response`,
    name: service.name,
    id: service.id,
    version: service.version,
    metadata: service.metadata,
  };
  const endpoint = {
    name: service.name,
    subject: service.endpoint?.subject ?? `$SRV.STATS.${service.name}.${service.id}`,
    queue_group: service.endpoint?.queue ?? "",
  };
  switch (verb) {
    case "PING":
      return identity;
    case "INFO":
      return { ...identity, description: service.description, endpoints: [endpoint] } as PingAnswer;
    case "STATS": {
      const figures = service.stats();
      const counts = {
        num_requests: Math.trunc(figures["requests"] ?? 0),
        num_errors: Math.trunc(figures["errors"] ?? 0),
        last_error: "",
        // Nanoseconds measured with millisecond clocks mislead (docs/architecture.md, 8); our own histograms are in
        // `data`.
        processing_time: 0,
        average_processing_time: 0,
        data: figures,
      };
      return { ...identity, started: startedAt.toISOString(), endpoints: [{ ...endpoint, ...counts }] };
    }
  }
}
