/**
 * Writes the build context of infra/nats/Dockerfile: this machine's nats-server, and the shared libraries that it is
 * linked with.
 */
import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { findNatsServer } from "@tutti/bus-nats";
import { librariesOf } from "../image/libraries.ts";

/** @param folder - is created; holds Dockerfile and rootfs/ afterwards */
export async function writeImageContext(folder: string, binary: string = findNatsServer()): Promise<void> {
  const rootfs = join(folder, "rootfs");
  const place = async (from: string, to: string) => {
    const path = join(rootfs, to);
    await mkdir(dirname(path), { recursive: true });
    await copyFile(from, path);
  };
  await mkdir(join(rootfs, "data"), { recursive: true });
  await place(binary, "usr/bin/nats-server");
  await place(join(import.meta.dirname, "nats.conf"), "etc/nats/nats.conf");
  for (const library of await librariesOf(binary)) await place(library, library);
  await copyFile(join(import.meta.dirname, "Dockerfile"), join(folder, "Dockerfile"));
}

if (import.meta.main) {
  const folder = process.argv[2];
  if (folder === undefined) throw new Error("usage: node infra/nats/image-context.ts <folder>");
  await writeImageContext(folder);
}
