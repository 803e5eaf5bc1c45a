/** Tools for tests of a bus: networks to connect to, and recorders of what is heard. */
import type { Bus, BusFailure, BusStatus, Delivery, RequestOptions } from "@tutti/ports/bus";

export interface BusNetwork {
  connect(): Promise<Bus>;
  /** A connection that may publish and subscribe below `open.>` and its own inbox, and nothing else. */
  connectRestricted(): Promise<Bus>;
  /** Breaks every connection. */
  cut(): Promise<void>;
  /** Lets the connections come back. */
  heal(): Promise<void>;
  /** Closes what the test has opened. */
  closeAll(): Promise<void>;
}

const encoder = new TextEncoder();
export const bytes = (text: string): Uint8Array => encoder.encode(text);
export const textOf = (delivery: Delivery): string => new TextDecoder().decode(delivery.payload);
export const NOTHING = new Uint8Array(0);

/** Records deliveries. Payloads are borrowed, so they are copied. */
export class Heard {
  readonly deliveries: Delivery[] = [];
  readonly #waiting: { readonly count: number; readonly resolve: () => void }[] = [];

  readonly take = (delivery: Delivery): void => {
    const { subject, reply } = delivery;
    const payload = new Uint8Array(delivery.payload);
    this.deliveries.push({ subject, reply, payload, header: (name) => delivery.header(name) });
    for (const { count, resolve } of this.#waiting) if (this.deliveries.length >= count) resolve();
  };
  get texts(): string[] {
    return this.deliveries.map(textOf);
  }
  count(count: number): Promise<void> {
    if (this.deliveries.length >= count) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ count, resolve }));
  }
}

/** Subjects that no other test uses. They begin with `open`, so that the restricted connection may use them, too. */
export function subjects(): () => string {
  let count = 0;
  return () => `open.s${++count}`;
}

export const flushed = (bus: Bus): Promise<boolean> => new Promise((resolve) => bus.flush(resolve));
export const request = (bus: Bus, to: string, payload: Uint8Array, options: RequestOptions = { timeoutMs: 5_000 }) =>
  new Promise<Delivery | BusFailure>((resolve) => bus.request(to, payload, options, resolve));
export function listen(bus: Bus): BusStatus[] {
  const statuses: BusStatus[] = [];
  bus.onStatus((status) => statuses.push(status));
  return statuses;
}

/** For conditions that no event announces; the test's own time-out ends it. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}
