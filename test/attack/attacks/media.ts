/** Attacks by pictures that are small as files and expensive to decode. */
import { readFileSync, readdirSync } from "node:fs";
import { crc32, deflateSync } from "node:zlib";
import { scannedJpeg } from "@tutti/onnx-tools/testing";
import type { Attack, Scene } from "../attack.ts";
import { type HttpReply, ask } from "../clients/http.ts";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");
const GREY = 0;
const BITS = 8;

function chunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.byteLength);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}

/** A black picture. */
export function png(width: number, height: number): Buffer {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head[8] = BITS;
  head[9] = GREY;
  const rows = deflateSync(Buffer.alloc((width + 1) * height), { level: 1 });
  return Buffer.concat([SIGNATURE, chunk("IHDR", head), chunk("IDAT", rows), chunk("IEND", Buffer.alloc(0))]);
}

const post = (
  scene: Scene,
  app: string,
  body: Uint8Array,
  { type = "image/png", sloMs = SLO_MS } = {},
): Promise<HttpReply> =>
  ask(`${scene.http}/v2/models/see/infer`, {
    body,
    headers: { "content-type": type, "tutti-app": app, "tutti-slo": `${sloMs}ms` },
    timeoutMs: 30_000,
  });

const SLO_MS = 2_000;
/** A small picture is decoded within some ms, beside one that takes a hundred. */
const SMALL_SLO_MS = 500;
/** Time beyond its deadline that a busy machine may take. */
const GRACE_MS = 1_000;

const pictures: Attack = {
  name: "long-pictures",
  what: "pictures of 1 × 39,000,000 and 39,000,000 × 1 points, while another application sends small ones",
  system: "open",
  async run(scene) {
    const small = png(64, 48);
    const warm = await ask(`${scene.http}/v2/models/see/infer`, {
      body: small,
      headers: { "content-type": "image/png", "tutti-app": "b", "tutti-slo": "9s" },
    });
    if (warm.status !== 200) throw new Error(`a picture is not served at rest: ${warm.text.slice(0, 160)}`);
    const long = [png(1, 39_000_000), png(39_000_000, 1)];
    const count = scene.of(4, 16);
    const attack = Promise.all(Array.from({ length: count }, (_, i) => post(scene, "a", long[i % 2]!)));
    const broken: string[] = [];
    const misses: string[] = [];
    for (let i = 0; i < 4; i++) {
      const { status, text } = await post(scene, "b", small);
      if (status !== 200) misses.push(`${status}: ${text.slice(0, 120)}`);
    }
    if (misses.length > 1) broken.push(`${misses.length} of 4 small pictures of another were not served: ${misses[0]}`);
    const slowest = Math.max(...(await attack).map(({ ms }) => ms));
    if (slowest > SLO_MS + GRACE_MS)
      broken.push(`one was worked on for ${Math.round(slowest)} ms, with an SLO of ${SLO_MS}`);
    return broken;
  },
};

/** Memory of the processes that a process started, itself not included. */
export function memoryOfChildren(pid: number): number {
  let bytes = 0;
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8").split(") ").at(-1)!.split(" ");
      if (Number(fields[1]) === pid) bytes += Number(fields[21]) * 4_096;
    } catch {
      // It ended meanwhile.
    }
  }
  return bytes;
}

/** A thread's process keeps 256 MB at most, and there are five threads at most. */
const CHILDREN_BYTES = 5 * 300_000_000;

const scans: Attack = {
  name: "scanned-pictures",
  what: "JPEGs of 91 scans and 40 megapixels and with arithmetic coding, and JPEGs at the bounds, 8 at a time, while another application sends small pictures",
  system: "open",
  async run(scene) {
    const size = { width: 6_324, height: 6_324 };
    const nasty = [
      scannedJpeg({ ...size, scans: 91 }),
      scannedJpeg({ ...size, scans: 4, frame: 0xca }),
      scannedJpeg({ width: 3_300, height: 3_300, scans: 22 }),
      scannedJpeg({ ...size, scans: 1, frame: 0xc0 }),
    ];
    const small = png(64, 48);
    await post(scene, "b", small);
    const before = memoryOfChildren(scene.pid);
    let isOver = false;
    const attackers = Array.from({ length: 8 }, async (_, i) => {
      for (let n = i; !isOver; n++) await post(scene, "a", nasty[n % nasty.length]!, { type: "image/jpeg" });
    });
    const broken: string[] = [];
    const misses: string[] = [];
    const count = scene.of(12, 100);
    for (let i = 0; i < count; i++) {
      const { status, text, ms } = await post(scene, "b", small, { sloMs: SMALL_SLO_MS });
      if (status !== 200) misses.push(`${status} after ${Math.round(ms)} ms: ${text.slice(0, 120)}`);
    }
    isOver = true;
    await Promise.all(attackers);
    if (misses.length > count / 12)
      broken.push(`${misses.length} of ${count} small pictures of another were not served: ${misses[0]}`);
    const after = memoryOfChildren(scene.pid);
    if (after > Math.max(before, CHILDREN_BYTES))
      broken.push(`processes that decode keep ${Math.round(after / 1e6)} MB, ${Math.round(before / 1e6)} MB before`);
    return broken;
  },
};

export const mediaAttacks: readonly Attack[] = [pictures, scans];
