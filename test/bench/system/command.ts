import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

const MAIN = join(import.meta.dirname, "../../../packages/cli/src/main.ts");

/** A command of `tutti` that runs beside a system. */
export class Command {
  readonly #name: string;
  readonly #child;
  readonly #closed: Promise<[number | null]>;
  #said = "";

  /** @param args - of which the first is the command's name */
  constructor(args: readonly string[]) {
    this.#name = args[0]!;
    this.#child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    this.#child.stdout.on("data", (chunk: Buffer) => (this.#said += chunk.toString()));
    this.#child.stderr.resume();
    this.#closed = once(this.#child, "close") as Promise<[number | null]>;
  }

  /** Resolves when a line of its progress begins so. */
  async says(beginning: string): Promise<void> {
    const said = new Promise<void>((resolve) => {
      createInterface({ input: this.#child.stderr }).on("line", (line) => line.startsWith(beginning) && resolve());
    });
    const early = this.#closed.then(([code]) => {
      throw new Error(`tutti ${this.#name} ended with ${code} before it said "${beginning}": ${this.#said}`);
    });
    early.catch(() => undefined); // an exit is expected later
    await Promise.race([said, early]);
  }

  interrupt(): void {
    this.#child.kill("SIGINT");
  }

  /** @returns its output at its end @throws Error if it ends with a code beyond `codeMax` */
  async ended(codeMax = 0): Promise<string> {
    const [code] = await this.#closed;
    if (code === null || code > codeMax) throw new Error(`tutti ${this.#name} ended with ${code}: ${this.#said}`);
    return this.#said;
  }
}
