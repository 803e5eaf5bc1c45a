/** The process that decodes pictures, one after the other, until its parent is gone. */
import { readSync, writeSync } from "node:fs";
import { TuttiError } from "@tutti/protocol";
import { type DecodedPicture, type PictureTarget, decodeHere } from "./picture-file.ts";
import { LENGTHS_BYTES, type PictureOutcome, headOf, lengthsOf } from "./picture-messages.ts";

/** Its parent ends it long before; a parent that died can't. */
const ORPHANED_MS = 10_000;
const NOTHING = new Uint8Array(0);
/** A white pixel. */
const WARM_UP = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==",
  "base64",
);

/** Reads so many bytes, or ends the process. It waits in the call: there is nothing else to do. */
function read(length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  for (let at = 0; at < length;) {
    const count = readSync(0, bytes, at, length - at, null);
    if (count === 0) process.exit();
    at += count;
  }
  return bytes;
}

function write(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.byteLength;) at += writeSync(1, bytes, at);
}

function send(outcome: PictureOutcome, pixels: Uint8Array): void {
  write(headOf({ ...outcome, resident: process.memoryUsage.rss() }, pixels));
  write(pixels);
}

async function decode(target: PictureTarget, bytes: Uint8Array): Promise<void> {
  const orphaned = setTimeout(() => process.kill(process.pid, "SIGKILL"), ORPHANED_MS);
  const decoded = await decodeHere(bytes, target).catch((error: unknown) => error as Error);
  clearTimeout(orphaned);
  if (decoded instanceof Error) {
    const code = decoded instanceof TuttiError ? decoded.code : "TUTTI_INTERNAL";
    return send({ code, text: decoded.message }, NOTHING);
  }
  const { image, width, height }: DecodedPicture = decoded;
  send({ image: { width: image.width, height: image.height }, width, height }, image.rgb);
}

// The first picture doesn't wait for libvips to be loaded.
await decodeHere(WARM_UP, { sideMax: 1 }).catch(() => undefined);
for (;;) {
  const [jsonBytes, pictureBytes] = lengthsOf(read(LENGTHS_BYTES));
  const target = JSON.parse(read(jsonBytes).toString()) as PictureTarget;
  await decode(target, read(pictureBytes));
}
