import type { ClientBus } from "./client.ts";

/**
 * A bus as a client of one application uses it: only what `newInbox` names differs. Its owner may have an inbox of its
 * own for everything else, where no application hears what it reads.
 */
export function appBus(bus: ClientBus, newInbox: () => string): ClientBus {
  return {
    publish: (subject, payload, options) => bus.publish(subject, payload, options),
    subscribe: (subject, onDelivery, options) => bus.subscribe(subject, onDelivery, options),
    newInbox,
    get payloadMax() {
      return bus.payloadMax;
    },
  };
}
