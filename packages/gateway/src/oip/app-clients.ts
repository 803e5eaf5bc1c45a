/**
 * A client for each application in whose name the gateway asks: answers to one application come below its own inbox.
 */
import type { Bus } from "@tutti/ports/bus";
import { type ClientBus, TuttiClient, appBus } from "@tutti/client";
import { TuttiError } from "@tutti/protocol";
import type { Telemetry } from "@tutti/ports/telemetry";

/** Names come from outside: beyond, the client that was idle longest is closed. */
export const GATEWAY_APPS_MAX = 1_024;

export class AppClients {
  readonly #bus: Bus;
  readonly #telemetry: Telemetry;
  /** Unguessable token that separates this gateway's inboxes from another's. */
  readonly #secret: string;
  /** Least recently used first. */
  readonly #clients = new Map<string, TuttiClient>();
  #appsMax: number;

  constructor(bus: Bus, telemetry: Telemetry, secret: string, appsMax = GATEWAY_APPS_MAX) {
    this.#bus = bus;
    this.#telemetry = telemetry;
    this.#secret = secret;
    this.#appsMax = appsMax;
  }

  get size(): number {
    return this.#clients.size;
  }

  /** @throws {TuttiError} OVERLOADED: the greatest number of applications has requests in flight */
  of(app: string): TuttiClient {
    let client = this.#clients.get(app);
    if (client === undefined) {
      if (this.#clients.size >= this.#appsMax) this.#closeIdle();
      client = new TuttiClient(this.#busOf(app), { app, telemetry: this.#telemetry });
    } else this.#clients.delete(app);
    this.#clients.set(app, client);
    return client;
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  #closeIdle(): void {
    for (const [app, client] of this.#clients) {
      if (client.inFlight > 0) continue;
      client.close();
      this.#clients.delete(app);
      return;
    }
    throw new TuttiError(
      "TUTTI_OVERLOADED",
      `this gateway asks in the name of ${this.#appsMax} applications already (GATEWAY_APPS_MAX)`,
      { retryAfterMs: 100 },
    );
  }

  #busOf(app: string): ClientBus {
    return appBus(this.#bus, () => `_INBOX.${app}.gateway.${this.#secret}`);
  }
}
