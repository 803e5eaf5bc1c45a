/**
 * An ingress that answers by a script and records what clients publish, byte for byte: a plain NATS subscription on a
 * socket of its own, since client libraries parse headers before anyone sees them.
 */
import { once } from "node:events";
import { type Socket, connect } from "node:net";
import { CONTENT, ERROR_STATUS, type ErrorCode, isRetryable } from "@tutti/protocol";
import { decodeRequest, encodeAnswer, encodeTensors, formOf } from "@tutti/wire";
import { type Answer, echoed } from "./cases.ts";

export interface Published {
  readonly subject: string;
  readonly reply: string;
  readonly headers: string;
  readonly payload: Buffer;
}

export class ScriptedIngress {
  readonly #socket: Socket;
  readonly #answers: ReadonlyMap<string, readonly Answer[]>;
  #published: Published[] = [];
  #unread: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket, answers: ReadonlyMap<string, readonly Answer[]>) {
    this.#socket = socket;
    this.#answers = answers;
  }

  /** @param answers - by model, in the order of its requests */
  static async start(url: string, answers: ReadonlyMap<string, readonly Answer[]>): Promise<ScriptedIngress> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    const ingress = new ScriptedIngress(socket, answers);
    const pong = new Promise<void>((resolve) => socket.on("data", (chunk) => ingress.#read(chunk, resolve)));
    socket.on("error", () => undefined); // its server was killed
    await once(socket, "connect");
    const options = { verbose: false, headers: true, no_responders: true };
    const subjects = ["cancel.*", "infer.*.shop", "infer.*.camera-7"];
    const subscriptions = subjects.map((subject, i) => `SUB ${subject} ${i}\r\n`).join("");
    socket.write(`CONNECT ${JSON.stringify(options)}\r\n${subscriptions}PING\r\n`);
    await pong;
    return ingress;
  }

  stop(): void {
    this.#socket.destroy();
  }

  /** Returns the messages published since the last call. */
  take(): readonly Published[] {
    const published = this.#published;
    this.#published = [];
    return published;
  }

  #read(chunk: Buffer, onPong: () => void): void {
    this.#unread = Buffer.concat([this.#unread, chunk]);
    for (;;) {
      const end = this.#unread.indexOf("\r\n");
      if (end < 0) return;
      const [operation, subject = "", , ...rest] = this.#unread.toString("utf8", 0, end).split(" ");
      let next = end + 2;
      if (operation === "PING") this.#socket.write("PONG\r\n");
      if (operation === "PONG") onPong();
      if (operation === "MSG" || operation === "HMSG") {
        const sizes = rest.slice(operation === "MSG" ? -1 : -2).map(Number);
        const [total = 0, head = 0] = sizes.toReversed();
        if (this.#unread.length < next + total + 2) return;
        const body = Buffer.from(this.#unread.subarray(next, next + total));
        const reply = rest.length > sizes.length ? rest[0]! : "";
        this.#receive({ subject, reply, headers: body.toString("utf8", 0, head), payload: body.subarray(head) });
        next += total + 2;
      }
      this.#unread = this.#unread.subarray(next);
    }
  }

  #receive(message: Published): void {
    this.#published.push(message);
    const [kind, model = ""] = message.subject.split(".");
    if (kind !== "infer") return;
    const before = this.#published.filter(({ subject }) => subject === message.subject).length - 1;
    const answer = this.#answers.get(model)?.[before] ?? "echo";
    if (answer === "silence") return;
    if (answer === "echo") this.#echo(message);
    else if ("afterMs" in answer) setTimeout(() => this.#echo(message), answer.afterMs);
    else if ("raw" in answer) this.#publish(message.reply, {}, Buffer.from(answer.raw));
    else {
      const code = answer.code as ErrorCode;
      const headers = { "Nats-Service-Error": "no", "Nats-Service-Error-Code": String(ERROR_STATUS[code]) };
      this.#publish(message.reply, headers, Buffer.from(JSON.stringify({ retryable: isRetryable(code), ...answer })));
    }
  }

  #echo({ subject, reply, headers, payload }: Published): void {
    const form = formOf(/^Content-Type: (.*)\r$/m.exec(headers)?.[1], payload)!;
    const { inputs, id } = decodeRequest(form, payload);
    const tensors = encodeTensors(inputs.map((input) => ({ ...input, name: echoed(input.name) })));
    const model = subject.split(".")[1]!;
    const answer = encodeAnswer(form, { model, version: "3", tensors, ...(id !== undefined && { id }) });
    this.#publish(reply, { "Content-Type": CONTENT[form], "Tutti-Version": "2" }, Buffer.from(answer));
  }

  #publish(subject: string, headers: Readonly<Record<string, string>>, payload: Buffer): void {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `NATS/1.0\r\n${lines.join("")}\r\n`;
    this.#socket.write(`HPUB ${subject} ${head.length} ${head.length + payload.length}\r\n${head}`);
    this.#socket.write(Buffer.concat([payload, Buffer.from("\r\n")]));
  }
}
