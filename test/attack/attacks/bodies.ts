/** Attacks by bodies that cost more than their size: unfinished, in one-byte chunks, deeply nested, or compressed. */
import { deflateSync, gzipSync } from "node:zlib";
import type { Attack, Scene } from "../attack.ts";
import { GrpcConnection, prefix } from "../clients/grpc.ts";
import { ask, dial, pause, pour } from "../clients/http.ts";
import { WIDE } from "../systems.ts";

/** Size of the largest body and message that are accepted. */
const BODY_BYTES = 33_000_000;
const PIECE = Buffer.alloc(262_144, 0x20);

function* piecesOf(bytes: number): Generator<Uint8Array> {
  for (let left = bytes; left > 0; left -= PIECE.byteLength) yield PIECE.subarray(0, left);
}

const unfinishedCalls: Attack = {
  name: "unfinished-grpc",
  what: "gRPC messages of 33 MB that never end, 60 of them",
  system: "open",
  async run(scene) {
    const untilMs = performance.now() + scene.of(3_000, 20_000);
    const connections = await Promise.all(Array.from({ length: 6 }, () => GrpcConnection.open(scene.grpc)));
    try {
      const count = scene.of(48, 60);
      const calls = Array.from({ length: count }, async (_, i) => {
        const stream = connections[i % connections.length]!.begin("ModelInfer", { "tutti-app": "a" });
        stream.write(prefix(BODY_BYTES));
        await pour(stream, piecesOf(BODY_BYTES - 1), untilMs);
      });
      await Promise.all(calls);
      await pause(scene.of(300, 3_000));
    } finally {
      for (const connection of connections) connection.close();
    }
    return [];
  },
};

const headOf = (fields: readonly string[]): string =>
  ["POST /v2/models/add-one/infer HTTP/1.1", "Host: 127.0.0.1", "tutti-app: a", ...fields, "", ""].join("\r\n");

const unfinishedBodies: Attack = {
  name: "unfinished-http",
  what: "bodies of 33 MB over HTTP without their last byte, 60 of them",
  system: "open",
  async run(scene) {
    const untilMs = performance.now() + scene.of(3_000, 20_000);
    const sockets = await Promise.all(
      Array.from({ length: scene.of(48, 60) }, async () => {
        const socket = await dial(scene.http);
        if (socket === undefined) return;
        socket.write(headOf([`Content-Length: ${BODY_BYTES}`]));
        socket.resume();
        await pour(socket, piecesOf(BODY_BYTES - 1), untilMs);
        return socket;
      }),
    );
    await pause(scene.of(300, 3_000));
    for (const socket of sockets) socket?.destroy();
    return [];
  },
};

/** 12,000 chunks of one byte. */
export const CRUMBS = Buffer.from("1\r\n \r\n".repeat(12_000));

const crumbs: Attack = {
  name: "one-byte-chunks",
  what: "bodies over HTTP that come in chunks of one byte",
  system: "open",
  // A body has 33 MB at most; each of its one-byte chunks may cost no more than a few bytes.
  memoryBytes: 268_435_456,
  async run(scene) {
    const untilMs = performance.now() + scene.of(3_000, 30_000);
    const sockets = await Promise.all(
      Array.from({ length: 2 }, async () => {
        const socket = await dial(scene.http);
        if (socket === undefined) return;
        socket.resume();
        socket.write(headOf(["Transfer-Encoding: chunked"]));
        await pour(socket, new Array<Uint8Array>(scene.of(60, 2_700)).fill(CRUMBS), untilMs);
        return socket;
      }),
    );
    await pause(500);
    for (const socket of sockets) socket?.destroy();
    return [];
  },
};

/** Mostly brackets: many small lists, and few deep ones. */
export function nestedBodies(): readonly string[] {
  const head = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,${WIDE}],"data":`;
  const bytes = 4_000_000;
  const shallow = `[${new Array<string>(Math.floor(bytes / 14)).fill("[[[[[0.5]]]]]").join(",")}]`;
  const deep = "[".repeat(bytes / 2) + "]".repeat(bytes / 2);
  return [shallow, deep].map((data) => `${head}${data}}]}`);
}

const GOOD_SLO_MS = 500;
const GOOD_LEAST = 4;
/** Time for the way through two processes, on a machine that the attacker shares. */
const LATE_MS = 250;
const goodBody = JSON.stringify({
  inputs: [{ name: "x", datatype: "FP32", shape: [1, WIDE], data: new Array<number>(WIDE).fill(0.25) }],
});

const nested: Attack = {
  name: "nested-json",
  what: "40 bodies of 4 MB of nested JSON of one application, and 70 KB of another's with an SLO of 500 ms",
  system: "open",
  async run(scene) {
    const url = `${scene.http}/v2/models/wide/infer`;
    const bodies = nestedBodies();
    const warm = await ask(url, { body: goodBody, headers: { "tutti-app": "b", "tutti-slo": "5s" } });
    if (warm.status !== 200) throw new Error(`a long body is not served at rest: ${warm.text.slice(0, 160)}`);
    let isOver = false;
    const attack = Array.from({ length: scene.of(12, 40) }, async (_, i) => {
      while (!isOver) {
        const body = bodies[i % 8 === 0 ? 1 : 0]!;
        await ask(url, { body, headers: { "tutti-app": "a" }, timeoutMs: 20_000 });
        await pause(50);
      }
    });
    const misses: string[] = [];
    const [startedMs, headers] = [performance.now(), { "tutti-app": "b", "tutti-slo": `${GOOD_SLO_MS}ms` }];
    let asked = 0;
    // One miss may fall into the moment in which all the bodies arrive; two are enough to know.
    while (misses.length < 2 && (asked < GOOD_LEAST || performance.now() - startedMs < scene.of(1_500, 15_000))) {
      await pause(100);
      asked++;
      const { status, text, ms } = await ask(url, { body: goodBody, headers, timeoutMs: 15_000 });
      if (status !== 200 || ms > GOOD_SLO_MS + LATE_MS)
        misses.push(`${status} after ${Math.round(ms)} ms: ${text.slice(0, 120)}`);
    }
    isOver = true;
    await Promise.all(attack);
    return misses.length > 1
      ? [`${misses.length} of ${asked} requests of another were not served: ${misses.at(-1)}`]
      : [];
  },
};

const bombs: Attack = {
  name: "compression-bombs",
  what: "bodies that unpack to a thousand times their size, and such messages over gRPC",
  system: "open",
  memoryBytes: 536_870_912,
  async run(scene) {
    const spaces = Buffer.alloc(scene.of(100_000_000, 400_000_000), 0x20);
    const packed = [
      ["gzip", gzipSync(spaces, { level: 1 })],
      ["deflate", deflateSync(spaces, { level: 1 })],
    ] as const;
    const broken: string[] = [];
    await Promise.all(
      Array.from({ length: scene.of(6, 24) }, async (_, i) => {
        const [encoding, body] = packed[i % packed.length]!;
        const headers = { "content-encoding": encoding, "tutti-app": "a" };
        const { status } = await ask(`${scene.http}/v2/models/add-one/infer`, { body, headers });
        if (status < 400) broken.push(`a ${encoding} bomb was answered with ${status}`);
      }),
    );
    return [...new Set([...broken, ...(await grpcBombs(scene, packed[0][1]))])];
  },
};

async function grpcBombs({ grpc }: Scene, packed: Uint8Array): Promise<string[]> {
  const connection = await GrpcConnection.open(grpc);
  try {
    const replies = await Promise.all(
      Array.from({ length: 4 }, () => {
        const stream = connection.begin("ModelInfer", { "grpc-encoding": "gzip", "tutti-app": "a" });
        const status = new Promise<number>((resolve) => {
          let heard = -1;
          const hear = (headers: Readonly<Record<string, unknown>>): void => {
            if (headers["grpc-status"] !== undefined) heard = Number(headers["grpc-status"]);
          };
          stream
            .on("response", hear)
            .on("trailers", hear)
            .on("close", () => resolve(heard));
          stream.resume();
        });
        stream.end(Buffer.concat([prefix(packed.byteLength, 1), packed]));
        return Promise.race([status, pause(10_000).then(() => "no answer")]);
      }),
    );
    return replies.filter((reply) => typeof reply === "string" || reply === 0).map((reply) => `a gRPC bomb: ${reply}`);
  } finally {
    connection.close();
  }
}

export const bodyAttacks: readonly Attack[] = [unfinishedCalls, unfinishedBodies, crumbs, nested, bombs];
