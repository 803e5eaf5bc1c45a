/** Attacks through Triton's shared memory: files that are not the client's, and regions that lie about their size. */
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import type { Attack, Scene } from "../attack.ts";
import { ask } from "../clients/http.ts";

const FOLDER = "/dev/shm";
const NAME = `tutti-attack-${process.pid}`;
/** A line that every Linux has in /etc/passwd, so that a leak is recognised. */
const SECRET = "root:";
const TRUNCATIONS = 200;

const regions = (scene: Scene): string => `${scene.http}/v2/systemsharedmemory`;
const register = (scene: Scene, region: string, body: object) =>
  ask(`${regions(scene)}/region/${region}/register`, { method: "POST", body: JSON.stringify(body) });

/** A request whose input lies in a region. */
const inferFrom = (scene: Scene, region: string, bytes: number, offset = 0) =>
  ask(`${scene.http}/v2/models/add-one/infer`, {
    method: "POST",
    body: JSON.stringify({
      inputs: [
        {
          ...{ name: "x", datatype: "FP32", shape: [1, 4] },
          parameters: {
            ...{ shared_memory_region: region, shared_memory_byte_size: bytes, shared_memory_offset: offset },
          },
        },
      ],
    }),
  });

const foreignFiles: Attack = {
  name: "shared-memory-files",
  what: "regions of files that are not below /dev/shm: paths that climb, links, folders, pipes",
  system: "open",
  async run(scene) {
    const link = `${NAME}-link`;
    const pipe = `${NAME}-pipe`;
    const folder = `${NAME}-folder`;
    symlinkSync("/etc/passwd", `${FOLDER}/${link}`);
    execFileSync("mkfifo", [`${FOLDER}/${pipe}`]);
    mkdirSync(`${FOLDER}/${folder}`);
    const keys = ["../../etc/passwd", "/../etc/passwd", `${folder}/../../../etc/passwd`, "/etc/passwd", ".", ""];
    const broken: string[] = [];
    try {
      for (const [i, key] of [...keys, link, pipe, folder, `${link}\0.x`].entries()) {
        const { status, text } = await register(scene, `f${i}`, { key, offset: 0, byte_size: 16 });
        if (status === 200) broken.push(`a region of ${JSON.stringify(key)} was registered`);
        const { text: outputs } = await inferFrom(scene, `f${i}`, 16);
        if ((text + outputs).includes(SECRET)) broken.push(`${JSON.stringify(key)} was given out`);
      }
    } finally {
      for (const name of [link, pipe, folder]) rmSync(`${FOLDER}/${name}`, { recursive: true, force: true });
    }
    return broken;
  },
};

const lyingRegions: Attack = {
  name: "shared-memory-sizes",
  what: "regions that say more bytes than their file has, offsets beyond any file, files that shrink under a request",
  system: "open",
  async run(scene) {
    const path = `${FOLDER}/${NAME}`;
    writeFileSync(path, new Uint8Array(64));
    const broken: string[] = [];
    try {
      const sizes = [2 ** 53, 2 ** 31, -1, 1.5, "16", null];
      for (const [i, size] of sizes.entries()) {
        const byLength = await register(scene, `l${i}`, { key: NAME, offset: 0, byte_size: size });
        const byOffset = await register(scene, `o${i}`, { key: NAME, offset: size, byte_size: 16 });
        for (const [region, { status }] of [
          [`l${i}`, byLength],
          [`o${i}`, byOffset],
        ] as const)
          if (status === 200 && (await inferFrom(scene, region, 16, 1_000_000)).status === 200)
            broken.push(`a region of ${size} bytes, or at ${size}, was read beyond its file`);
      }
      const { status } = await register(scene, "whole", { key: NAME, offset: 0, byte_size: 64 });
      if (status !== 200) throw new Error(`a region of the client's own file is refused: ${status}`);
      for (let i = 0; i < scene.of(TRUNCATIONS / 10, TRUNCATIONS); i++) {
        const answer = inferFrom(scene, "whole", 16, 48);
        truncateSync(path, i % 2 === 0 ? 0 : 64);
        if ((await answer).status === 500) broken.push("a file that shrank under a request is the server's own error");
      }
    } finally {
      rmSync(path, { force: true });
      await ask(`${regions(scene)}/unregister`, { method: "POST", body: "{}" });
    }
    return [...new Set(broken)];
  },
};

const manyRegions: Attack = {
  name: "shared-memory-many",
  what: "more regions than a gateway keeps, each an open file",
  system: "open",
  async run(scene) {
    const path = `${FOLDER}/${NAME}-many`;
    writeFileSync(path, new Uint8Array(64));
    try {
      const taken = await Promise.all(
        Array.from({ length: 1_000 }, (_, i) =>
          register(scene, `m${i}`, { key: `${NAME}-many`, offset: 0, byte_size: 16 }),
        ),
      );
      const count = taken.filter(({ status }) => status === 200).length;
      return count > 256 ? [`${count} regions were registered`] : [];
    } finally {
      rmSync(path, { force: true });
      await ask(`${regions(scene)}/unregister`, { method: "POST", body: "{}" });
    }
  },
};

export const sharedMemoryAttacks: readonly Attack[] =
  process.platform === "linux" ? [foreignFiles, lyingRegions, manyRegions] : [];
