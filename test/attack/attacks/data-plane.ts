/** Attacks on the port of inputs and results by a peer without a batcher's token. */
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { Heartbeat, TOKEN_BYTES, subjectsOf } from "@tutti/protocol";
import { proofOf } from "@tutti/pull-tcp";
import { actorKey, instant, micros } from "@tutti/units";
import {
  DATA_PREFIX_BYTES,
  type DataFrame,
  FrameReader,
  decodeFrame,
  encodeHello,
  encodePull,
  encodeResults,
  encodeTensors,
} from "@tutti/wire";
import type { Attack, Scene } from "../attack.ts";
import { dial, exchange, pause, pour } from "../clients/http.ts";
import { RawNats } from "../clients/nats.ts";

const BATCHES = 64;
const SEQS = Array.from({ length: 256 }, (_, i) => i + 1);
const EXECUTOR = actorKey(987_654_321);

/** Heartbeat of an ingress, which says where it listens; an attacker would try all ports. */
async function ingressOf(scene: Scene): Promise<Heartbeat> {
  const nats = await RawNats.open(scene.nats, scene.credentialsOf("admin"));
  try {
    nats.subscribe(subjectsOf("main").beat("ingress"));
    let found: Heartbeat | undefined;
    const reader = new FrameReader().on(Heartbeat, (beat) => (found = beat));
    await nats.next(({ payload }) => {
      reader.read(payload);
      return found?.address !== undefined;
    }, 5_000);
    if (found?.address === undefined) throw new Error("the ingress tells of no port");
    return found;
  } finally {
    nats.close();
  }
}

const write = (socket: Socket, { head, body }: DataFrame): void => {
  for (const part of [head, ...body]) socket.write(part);
};

const tokenless: Attack = {
  name: "no-token",
  what: "pulls and results on the data plane with guessed tokens, and bytes that are no frames",
  system: "credentials",
  async run(scene) {
    const { key, address } = await ingressOf(scene);
    const url = `${address!.host}:${address!.port}`;
    const socket = await dial(url);
    if (socket === undefined) throw new Error(`${url} refuses connections`);
    const heard: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => heard.push(chunk));
    write(socket, encodeHello(EXECUTOR, key, proofOf(address!.secret!, "hello", EXECUTOR, key)));
    for (let batchId = 1; batchId <= BATCHES && !socket.destroyed; batchId++) {
      const token = batchId % 2 === 0 ? randomBytes(TOKEN_BYTES) : new Uint8Array(TOKEN_BYTES);
      const claim = { executor: EXECUTOR, gpu: 0, thread: 64, batchId, batcher: key, token };
      const times = { startedAt: instant(1), finishedAt: instant(2), run: micros(1) };
      const data = new Uint8Array(Float32Array.of(7, 7, 7, 7).buffer);
      const outputs = encodeTensors([{ name: "y", type: "FP32", dims: [1, 4], data }]);
      const items = SEQS.map((seq) => ({ seq, outputs, code: 0, text: "" }));
      for (const frame of encodeResults({ ...claim, ...times, batchSize: 1, items })) write(socket, frame);
      write(socket, encodePull({ ...claim, seqs: SEQS }, batchId));
      await pause(20);
    }
    await pause(300);
    socket.destroy();
    const rows = rowsIn(Buffer.concat(heard));
    return [...(rows > 0 ? [`${rows} rows of others were given out`] : []), ...(await garbage(url, scene))];
  },
};

/** Number of inputs in the replies. */
function rowsIn(bytes: Uint8Array): number {
  let rows = 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + DATA_PREFIX_BYTES <= bytes.byteLength;) {
    const end = at + DATA_PREFIX_BYTES + view.getUint32(at + 4, true) + view.getUint32(at + 8, true);
    const frame = decodeFrame(bytes.slice(at, end));
    if ("kind" in frame && frame.kind === "reply") rows += frame.items.filter(({ row }) => row !== undefined).length;
    at = end;
  }
  return rows;
}

/** Sends bytes that are no frames: the server closes the connection. The witness reports whether others feel it. */
async function garbage(url: string, scene: Scene): Promise<string[]> {
  const huge = Buffer.alloc(DATA_PREFIX_BYTES, 0xff);
  // A pull whose prefix is valid up to its lengths.
  huge.set([0x54, 0x44, 1, 3]);
  const texts = [randomBytes(4_096), huge, Buffer.from("GET / HTTP/1.1\r\n\r\n"), Buffer.alloc(4_096)];
  const answers = await Promise.all(
    Array.from({ length: scene.of(40, 400) }, (_, i) => exchange(url, texts[i % texts.length]!, 1_000)),
  );
  return answers.some((text) => text.length > 0) ? ["it answered bytes that are no frame"] : [];
}

/** Bytes that a frame may have at most, as its prefix announces them. */
const ANNOUNCED_BYTES = 67_000_000;
const PIECE = Buffer.alloc(65_536, 1);
const POUR_MS = 12_000;
/** A hello must come within 5 s. */
const SILENCE_MS = 7_000;

const memory: Attack = {
  name: "data-port-memory",
  what: "frames of 67 MB on the data plane, announced and sent by peers without credentials, and silent sockets",
  system: "credentials",
  memoryBytes: 100_663_296,
  async run(scene) {
    const { key, address } = await ingressOf(scene);
    const url = `${address!.host}:${address!.port}`;
    const frame = Buffer.alloc(DATA_PREFIX_BYTES);
    frame.set([0x54, 0x44, 1, 5]);
    frame.writeUInt32LE(ANNOUNCED_BYTES, 8);
    const wrong = encodeHello(EXECUTOR, key, randomBytes(TOKEN_BYTES)).head;
    const untilMs = performance.now() + POUR_MS;
    const taken = await Promise.all(
      Array.from({ length: scene.of(16, 64) }, async (_, i) => {
        const socket = await dial(url);
        if (socket === undefined) return 0;
        const pieces = [...(i % 2 === 0 ? [] : [wrong]), frame, ...new Array<Buffer>(1_000).fill(PIECE)];
        const sent = await pour(socket, pieces, untilMs);
        socket.destroy();
        return sent;
      }),
    );
    const silent = await Promise.all(Array.from({ length: scene.of(300, 2_000) }, () => dial(url)));
    await pause(SILENCE_MS);
    const open = silent.filter((socket) => socket?.readyState === "open");
    for (const socket of silent) socket?.destroy();
    return [
      ...(Math.max(...taken) > ANNOUNCED_BYTES / 4 ? ["a peer without the secret may send a long frame"] : []),
      ...(open.length > 0 ? [`${open.length} sockets that said nothing are open after ${SILENCE_MS} ms`] : []),
    ];
  },
};

export const dataPlaneAttacks: readonly Attack[] = [tokenless, memory];
