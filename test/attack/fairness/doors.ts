/** One application at a door, as fast as it may: many connections, each of which asks again once it is answered. */
import { Agent, request } from "node:http";
import { GrpcConnection, prefix } from "../clients/grpc.ts";
import { pause } from "../clients/http.ts";
import { type Publication, RawNats } from "../clients/nats.ts";

/** Where the application sends to, and with what it proves who it is. */
export interface Target {
  readonly http: string;
  readonly grpc: string;
  readonly nats: string;
  readonly key: string;
  /** Text of its NATS credentials. */
  readonly credentials: string;
}

export interface Flood extends Target {
  isOver(): boolean;
  /** Counts one thing that was sent, by what became of it. */
  count(outcome: string | number): void;
}

export interface HttpAsking {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string;
}

/** A refusal that costs nothing is no reason to ask without pause: an attacker's machine would be busy with itself. */
const REFUSED_MS = 5;

export async function overHttp(flood: Flood, connections: number, asking: (i: number) => HttpAsking): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  let i = 0;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (!flood.isOver()) {
        const status = await askOnce(agent, flood, asking(i++));
        flood.count(status);
        if (status === 0 || status === 429) await pause(REFUSED_MS);
      }
    }),
  );
  agent.destroy();
}

const GIVE_UP_MS = 10_000;

function askOnce(agent: Agent, { http, key }: Flood, asking: HttpAsking): Promise<number> {
  const { path, method = "POST", headers = {}, body } = asking;
  return new Promise((resolve) => {
    const call = request(`${http}${path}`, {
      ...{ method, agent, timeout: GIVE_UP_MS },
      headers: { authorization: `Bearer ${key}`, "content-length": Buffer.byteLength(body), ...headers },
    });
    let status = 0;
    call.on("response", (response) => {
      status = response.statusCode ?? 0;
      response.resume();
    });
    call.on("timeout", () => call.destroy());
    call.on("error", () => undefined); // it ends with "close"
    call.on("close", () => resolve(status));
    call.end(body);
  });
}

export interface GrpcAsking {
  readonly method?: string;
  readonly content: Uint8Array;
}

const GRPC_CONNECTIONS = 8;

export async function overGrpc(flood: Flood, calls: number, asking: (i: number) => GrpcAsking): Promise<void> {
  const metadata = { authorization: `Bearer ${flood.key}` };
  let i = 0;
  await Promise.all(
    Array.from({ length: GRPC_CONNECTIONS }, async () => {
      let connection = await GrpcConnection.open(flood.grpc);
      const askOn = async (): Promise<void> => {
        while (!flood.isOver()) {
          const { method = "ModelInfer", content } = asking(i++);
          const { status } = await connection.ask(method, content, metadata);
          flood.count(`grpc ${status}`);
          if (status === -1 || status === 8) await pause(REFUSED_MS);
          if (!connection.isOpen) connection = await GrpcConnection.open(flood.grpc);
        }
      };
      await Promise.all(Array.from({ length: Math.ceil(calls / GRPC_CONNECTIONS) }, askOn));
      connection.close();
    }),
  );
}

/** Streams of messages, each written as fast as the gateway reads it, on a connection each. */
export async function overStreams(flood: Flood, streams: number, contentOf: (i: number) => Uint8Array): Promise<void> {
  let i = 0;
  await Promise.all(
    Array.from({ length: streams }, async () => {
      while (!flood.isOver()) {
        const connection = await GrpcConnection.open(flood.grpc);
        const stream = connection.begin("ModelStreamInfer", { authorization: `Bearer ${flood.key}` });
        stream.resume();
        while (!flood.isOver() && !stream.closed && stream.writable) {
          const content = contentOf(i++);
          const isTaken = stream.write(Buffer.concat([prefix(content.byteLength), content]));
          flood.count("sent");
          if (isTaken) await new Promise(setImmediate);
          else await Promise.race([new Promise((resolve) => stream.once("drain", resolve)), pause(100)]);
        }
        connection.close();
      }
    }),
  );
}

export interface NatsAsking extends Publication {
  readonly subject: string;
  readonly payload: Uint8Array | string;
}

const NATS_CONNECTIONS = 4;
/** Bytes and messages that are sent before the server is asked whether it has read them. */
const [BURST_BYTES, BURST_MESSAGES] = [8_000_000, 256];

/** Publishes as fast as the server reads, without waiting for answers. */
export async function overNats(flood: Flood, asking: (i: number) => NatsAsking): Promise<void> {
  let i = 0;
  await Promise.all(
    Array.from({ length: NATS_CONNECTIONS }, async (_, own) => {
      let nats = await RawNats.open(flood.nats, flood.credentials);
      const inbox = `_INBOX.a.flood${own}`;
      nats.subscribe(`${inbox}.>`);
      while (!flood.isOver()) {
        for (let bytes = 0, count = 0; bytes < BURST_BYTES && count < BURST_MESSAGES; count++) {
          const { subject, payload, ...more } = asking(i++);
          nats.publish(subject, payload, { reply: `${inbox}.${i}`, ...more });
          bytes += payload.length;
          flood.count("sent");
        }
        const isOpen = await nats.flush();
        for (const { headers } of nats.messages.splice(0))
          flood.count(`answer ${/Nats-Service-Error-Code: *(\d+)/.exec(headers)?.[1] ?? "200"}`);
        for (const error of nats.errors.splice(0)) flood.count(`-ERR ${error.split(" ").slice(0, 3).join(" ")}`);
        if (!isOpen) nats = await RawNats.open(flood.nats, flood.credentials);
      }
      nats.close();
    }),
  );
}
