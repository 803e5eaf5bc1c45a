import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { MixStore } from "@tutti/sim-report/figures";
import type { ComparedMix } from "@tutti/simulator";

/** Compared mixes of a run of `tutti figures` that isn't at its end: a line of JSON each, for `--resume`. */
export class StoredMixes implements MixStore {
  readonly #folder: string;
  readonly #known = new Map<string, ComparedMix>();

  constructor(folder: string, resume: boolean) {
    this.#folder = folder;
    if (!resume) this.discard();
    if (!existsSync(this.#path)) return;
    // A run that was killed may have left half a line: it goes, before others are appended to it.
    const whole = readFileSync(this.#path, "utf8").split("\n").slice(0, -1);
    writeFileSync(this.#path, whole.map((line) => `${line}\n`).join(""));
    for (const line of whole) {
      const { key, mix } = JSON.parse(line) as { key: string; mix: ComparedMix };
      this.#known.set(key, mix);
    }
  }

  get #path(): string {
    return join(this.#folder, "mixes.partial.jsonl");
  }

  get(key: string): ComparedMix | undefined {
    return this.#known.get(key);
  }

  set(key: string, mix: ComparedMix): void {
    this.#known.set(key, mix);
    appendFileSync(this.#path, `${JSON.stringify({ key, mix })}\n`);
  }

  /** The figures are drawn, or begun anew. */
  discard(): void {
    rmSync(this.#path, { force: true });
  }
}
