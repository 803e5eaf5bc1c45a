/** A server in virtual time, for tests: a function gives the delay and the outcome of each answer. */
import type { Clock } from "@tutti/ports/clock";
import { type Micros, after } from "@tutti/units";
import { type Answer, OK_ANSWER, type Outgoing, type Target } from "../target.ts";

export type Behaviour = Micros | "never" | "refuse" | "unsendable";
const REFUSED: Answer = { outcome: "TUTTI_OVERLOADED", retryAfterMs: 5 };

export class FakeServer implements Target {
  held = 0;
  readonly requests: Outgoing[] = [];
  readonly forgotten: number[] = [];
  readonly #clock: Clock;
  readonly #behave: (n: number, request: Outgoing) => Behaviour;
  readonly #twice: (n: number) => boolean;
  #onAnswer: (token: number, answer: Answer) => void = () => undefined;

  constructor(
    clock: Clock,
    behave: (n: number, request: Outgoing) => Behaviour,
    options: { readonly twice?: (n: number) => boolean } = {},
  ) {
    this.#clock = clock;
    this.#behave = behave;
    this.#twice = options.twice ?? (() => false);
  }

  open(onAnswer: (token: number, answer: Answer) => void): void {
    this.#onAnswer = onAnswer;
  }

  send(request: Outgoing): boolean {
    const n = this.requests.push(request) - 1;
    const behaviour = this.#behave(n, request);
    if (behaviour === "unsendable") return false;
    if (behaviour === "never") return true;
    const answer = behaviour === "refuse" ? REFUSED : OK_ANSWER;
    const times = this.#twice(n) ? 2 : 1;
    const alarm = this.#clock.alarm(() => {
      for (let i = 0; i < times; i++) this.#onAnswer(request.token, answer);
    });
    alarm.set(after(this.#clock.now(), behaviour === "refuse" ? (0 as Micros) : behaviour));
    return true;
  }

  forget(token: number): void {
    this.forgotten.push(token);
  }
  close(): void {}
}
