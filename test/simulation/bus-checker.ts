/**
 * Checks HOST-1 and HOST-2 of packages/ports/src/bus. Messages from one actor to a subject reach another in order and
 * at most once, whichever way they take.
 */
import type { Delivery } from "@tutti/ports/bus";
import { type Channel, SENT_AS } from "../fixtures/actor-cluster/ports.ts";
import type { Incarnation } from "../fixtures/actor-cluster/process.ts";
import type { Plan } from "./plan.ts";
import type { Report } from "./violation.ts";

export class BusChecker {
  readonly #report: Report;
  /** Whether nothing in the plan lets messages overtake each other, or repeats them. */
  readonly #isOrderly: boolean;
  readonly #senders = new Map<string, { readonly actor: Incarnation; sent: number }>();
  /** Number of the last message heard, by sender, receiver, channel and subject. */
  readonly #heard = new Map<string, number>();

  constructor(report: Report, { isOrderly, grouping }: Pick<Plan, "isOrderly" | "grouping">) {
    this.#report = report;
    this.#isOrderly = isOrderly && grouping.links.full === 0;
  }

  tagOf(actor: Incarnation, channel: Channel): string {
    const id = `${actor.key.toString(36)}/${channel}`;
    let sender = this.#senders.get(id);
    if (sender === undefined) this.#senders.set(id, (sender = { actor, sent: 0 }));
    return `${id}/${++sender.sent}`;
  }

  received(actor: Incarnation, channel: Channel, delivery: Delivery): void {
    const tag = delivery.header(SENT_AS);
    if (tag === undefined) return;
    const end = tag.lastIndexOf("/");
    const [id, number] = [tag.slice(0, end), Number(tag.slice(end + 1))];
    const sender = this.#senders.get(id)!.actor;
    // A message from an actor to itself goes the way of the connection (HOST-4).
    if (sender === actor || (!this.#isOrderly && sender.process !== actor.process)) return;
    const pair = `${id}>${actor.key}/${channel} ${delivery.subject}`;
    const last = this.#heard.get(pair) ?? 0;
    if (number > last) return void this.#heard.set(pair, number);
    const what = number === last ? "a second time" : `after number ${last}`;
    this.#report("HOST", `${actor.name} hears number ${number} of ${sender.name}, to ${delivery.subject}, ${what}`);
  }
}
