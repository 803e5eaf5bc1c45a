/** Pictures that are decoded in a process of their own. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { afterEach, expect, test } from "vitest";
import { scannedJpeg } from "../testing/scanned-jpeg.ts";
import { decodeHere } from "./picture-file.ts";
import { PictureProcess, type PictureProcessOptions } from "./picture-process.ts";

const TARGET = { sideMax: 200 };
const line = new Uint8Array(readFileSync(join(import.meta.dirname, "../../fixtures/text-line.png")));
/** Takes its time, more than some ms: noise, which doesn't compress. */
const large = async (): Promise<Uint8Array> => {
  const [width, height] = [4_000, 3_000];
  const rgb = Buffer.alloc(width * height * 3);
  for (let i = 0, seed = 1; i + 4 <= rgb.length; i += 4)
    rgb.writeUInt32LE((seed = Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0, i);
  return new Uint8Array(
    await sharp(rgb, { raw: { width, height, channels: 3 } })
      .jpeg({ quality: 50 })
      .toBuffer(),
  );
};

let pictures: PictureProcess | undefined;
const started = (options: PictureProcessOptions = {}): PictureProcess => {
  pictures = new PictureProcess(options);
  pictures.start();
  return pictures;
};
afterEach(() => pictures?.close());

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const gone = async (pid: number): Promise<void> => {
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
};

test("pictures are decoded as in this process, also several at once, and refused with the same code", async () => {
  const one = started();
  const expected = await decodeHere(line, TARGET);
  const all = await Promise.all([1, 2, 3].map(() => one.decode(line, TARGET)));
  for (const decoded of all) expect(decoded).toEqual(expected);
  const pid = one.pid;
  const many = one.decode(scannedJpeg({ width: 640, height: 640, scans: 91 }), TARGET);
  await expect(many).rejects.toMatchObject({ code: "TUTTI_TOO_LARGE", retryable: false });
  await expect(one.decode(line.subarray(0, 400), TARGET)).rejects.toMatchObject({ code: "TUTTI_INVALID_INPUT" });
  expect(await one.decode(line, TARGET)).toEqual(expected);
  expect(one.pid).toBe(pid);
});

test("a picture that takes too long is refused, its process is gone, and the next picture is decoded", async () => {
  const one = started({ decodeMsMax: 1 });
  const pid = one.pid!;
  await expect(one.decode(await large(), TARGET)).rejects.toMatchObject({ code: "TUTTI_TOO_LARGE" });
  await gone(pid);
  one.close();
  await expect(started().decode(line, TARGET)).resolves.toBeDefined();
});

test("a picture that nobody waits for any more is ended with its process, and the next one is decoded", async () => {
  const one = started();
  const abort = new AbortController();
  // Stopped, it never ends by itself.
  process.kill(one.pid!, "SIGSTOP");
  const pid = one.pid!;
  const unwanted = one.decode(line, TARGET, abort.signal);
  const next = one.decode(line, TARGET);
  abort.abort();
  await expect(unwanted).rejects.toMatchObject({ code: "TUTTI_CANCELLED" });
  await expect(next).resolves.toBeDefined();
  await gone(pid);
  await expect(one.decode(line, TARGET, AbortSignal.abort())).rejects.toMatchObject({ code: "TUTTI_CANCELLED" });
});

test("a process that dies fails its own picture alone (PROCESS-2)", async () => {
  const one = started();
  process.kill(one.pid!, "SIGSTOP");
  const lost = one.decode(line, TARGET);
  const next = one.decode(line, TARGET);
  process.kill(one.pid!, "SIGKILL");
  await expect(lost).rejects.toMatchObject({ code: "TUTTI_INTERNAL" });
  await expect(next).resolves.toBeDefined();
});

test("memory that a picture leaves behind ends with the process (PROCESS-1)", async () => {
  const one = started({ residentMax: 1 });
  const first = one.pid!;
  await one.decode(line, TARGET);
  await gone(first);
  await one.decode(line, TARGET);
  expect(one.pid).not.toBe(first);
});

test("closing refuses what runs and what waits, and ends the process", async () => {
  const one = started();
  const pid = one.pid!;
  const asked = [one.decode(line, TARGET), one.decode(line, TARGET)];
  one.close();
  for (const outcome of await Promise.allSettled(asked))
    expect(outcome).toMatchObject({ status: "rejected", reason: { code: "TUTTI_UNAVAILABLE" } });
  await gone(pid);
});

test("a process that can't start fails its picture, with what to do", async () => {
  const one = new PictureProcess({ script: new URL("./missing.ts", import.meta.url) });
  await expect(one.decode(line, TARGET)).rejects.toThrow("run `tutti doctor`");
});
