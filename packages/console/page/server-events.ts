/**
 * Parses server-sent events from pieces of text: the name and data of each. Retry times, ids and comments are ignored.
 */
export class ServerEvents {
  readonly #onEvent: (name: string, data: string) => void;
  #rest = "";
  #name = "";
  #data = "";

  constructor(onEvent: (name: string, data: string) => void) {
    this.#onEvent = onEvent;
  }

  /** The gateway ends lines with a line feed alone. */
  read(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("event: ")) this.#name = line.slice(7);
      else if (line.startsWith("data: ")) this.#data += line.slice(6);
      else if (line === "") this.#end();
    }
  }

  #end(): void {
    if (this.#data !== "") this.#onEvent(this.#name, this.#data);
    this.#name = this.#data = "";
  }
}
