import { createHash } from "node:crypto";
import type { Instant } from "@tutti/units";

const LINES_MAX = 4000;

/**
 * The last events, printed when a seed fails, and a digest of all events. Two runs of a seed are compared by the digest
 * (T6).
 */
export class StoryLog {
  readonly #lines: string[] = [];
  readonly #isTold: boolean;
  readonly #hash = createHash("sha256");
  #startedAt = -1;
  #pending = "";
  events = 0;

  /** @param isTold - whether lines are kept: a passing run needs none, and a failing one is repeated */
  constructor(isTold: "told" | "silent") {
    this.#isTold = isTold === "told";
  }

  tell(at: Instant, who: string, text: string, value?: unknown): void {
    if (!this.#isTold) return;
    if (this.#startedAt < 0) this.#startedAt = at;
    const shown = value === undefined ? "" : ` ${shorten(value)}`;
    this.#lines.push(`${((at - this.#startedAt) / 1000).toFixed(3).padStart(10)} ms  ${who}  ${text}${shown}`);
    if (this.#lines.length > 2 * LINES_MAX) this.#lines.splice(0, LINES_MAX);
  }

  count(at: Instant, { from, to, subject, bytes }: { from: string; to: string; subject: string; bytes: number }): void {
    this.events++;
    this.#pending += `${at} ${from} ${to} ${subject} ${bytes}\n`;
    if (this.#pending.length < 65_536) return;
    this.#hash.update(this.#pending);
    this.#pending = "";
  }

  last(count: number): string[] {
    return this.#lines.slice(-count);
  }
  digest(): string {
    return this.#hash.copy().update(this.#pending).digest("hex").slice(0, 16);
  }
}

function shorten(value: unknown): string {
  const text = JSON.stringify(value, (key, member: unknown) =>
    member instanceof Uint8Array || key === "token" || key === "secret" ? undefined : member,
  );
  return text.length > 400 ? `${text.slice(0, 400)}…` : text;
}
