/** Attacks by pictures that are small as files and expensive to decode. */
import { crc32, deflateSync } from "node:zlib";
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

const post = (scene: Scene, app: string, body: Uint8Array): Promise<HttpReply> =>
  ask(`${scene.http}/v2/models/see/infer`, {
    body,
    headers: { "content-type": "image/png", "tutti-app": app, "tutti-slo": `${SLO_MS}ms` },
    timeoutMs: 30_000,
  });

const SLO_MS = 2_000;
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

export const mediaAttacks: readonly Attack[] = [pictures];
