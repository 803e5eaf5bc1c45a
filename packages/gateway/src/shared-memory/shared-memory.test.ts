import {
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TuttiError } from "@tutti/protocol";
import { afterEach, beforeEach, expect, test } from "vitest";
import { SharedMemory, type SharedMemoryOptions } from "./shared-memory.ts";

const UID = process.geteuid?.() ?? 0;

let folder: string;
let memory: SharedMemory;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-shm-"));
  memory = opened();
});
afterEach(async () => {
  await memory.close();
  rmSync(folder, { recursive: true });
});

const opened = (options: Partial<SharedMemoryOptions> = {}): SharedMemory =>
  new SharedMemory({ isOpen: true, folder, ...options });
const make = (name: string, bytes = 16): void =>
  writeFileSync(
    join(folder, name),
    Uint8Array.from({ length: bytes }, (_, i) => i),
  );
const region = (name: string, key = name, offset = 0, bytes = 16) => ({ name, key, offset, bytes });
const codeOf = async (run: () => unknown): Promise<string> => {
  try {
    await run();
    return "ok";
  } catch (error) {
    return error instanceof TuttiError ? error.code : String(error);
  }
};

test("a region is read and written where its slice lies, within its file and beside nothing else", async () => {
  make("a");
  await memory.register(undefined, region("r", "/a", 4, 12), UID);
  expect(memory.status(undefined, undefined)).toEqual([{ name: "r", key: "/a", offset: 4, bytes: 12 }]);
  const slice = memory.slice(undefined, { region: "r", offset: 2, bytes: 3 });
  expect([...(await slice.read())]).toEqual([6, 7, 8]);
  await slice.write(Uint8Array.of(90, 91));
  expect([...readFileSync(join(folder, "a"))]).toEqual([0, 1, 2, 3, 4, 5, 90, 91, 8, 9, 10, 11, 12, 13, 14, 15]);
  expect(await codeOf(() => slice.write(new Uint8Array(4)))).toBe("TUTTI_INVALID_INPUT");
  for (const [offset, bytes] of [
    [0, 13],
    [12, 1],
    [2 ** 53 - 1, 2 ** 53 - 1],
  ] as const)
    expect(() => memory.slice(undefined, { region: "r", offset, bytes })).toThrow(
      'beyond the shared memory region "r"',
    );
});

test("only plain files directly below the folder, of the user who registers them, become regions (SHM-1)", async () => {
  make("a");
  mkdirSync(join(folder, "sub"));
  make("sub/b");
  symlinkSync(join(folder, "a"), join(folder, "link"));
  make("twice");
  linkSync(join(folder, "twice"), join(folder, "again"));
  const register = (key: string, uid: number | undefined = UID, offset = 0, bytes = 16): Promise<string> =>
    codeOf(() => memory.register(undefined, region("r", key, offset, bytes), uid));
  for (const key of [
    "",
    "/",
    ".",
    "..",
    "/..",
    "../a",
    "sub/b",
    "//a",
    "a\u0000",
    "x".repeat(256),
    "nobody",
    "link",
    "sub",
    "again",
  ])
    expect(await register(key), key).toBe("TUTTI_INVALID_INPUT");
  expect(await register("a", UID + 1)).toBe("TUTTI_FORBIDDEN");
  expect(await codeOf(() => memory.register(undefined, region("r", "a"), undefined))).toBe("TUTTI_FORBIDDEN");
  expect([await register("a", UID, 0, 17), await register("a", UID, 16, 1)]).toEqual([
    "TUTTI_INVALID_INPUT",
    "TUTTI_INVALID_INPUT",
  ]);
  expect(memory.status(undefined, undefined)).toEqual([]);
  expect([await register("a"), await register("a")]).toEqual(["ok", "TUTTI_INVALID_INPUT"]);
});

test("a region is its application's, and goes with its own word or all of them (SHM-2)", async () => {
  make("a");
  for (const [owner, name] of [
    ["shop", "r"],
    ["shop", "q"],
    ["other", "r"],
  ] as const)
    await memory.register(owner, region(name, "a"), UID);
  expect(() => memory.slice("other", { region: "q", offset: 0, bytes: 1 })).toThrow('no shared memory region "q"');
  expect(() => memory.status("other", "q")).toThrow(TuttiError);
  expect(memory.status("shop", "q")).toHaveLength(1);
  await memory.unregister("shop", "q");
  await memory.unregister("shop", "q");
  expect(memory.status("shop", undefined).map(({ name }) => name)).toEqual(["r"]);
  await memory.unregister("shop", undefined);
  expect([memory.status("shop", undefined), memory.status("other", undefined).length]).toEqual([[], 1]);
});

test("a file that was cut short, or a region that was given up, fails its requests and nothing else", async () => {
  make("a");
  await memory.register(undefined, region("r", "a"), UID);
  const slice = memory.slice(undefined, { region: "r", offset: 0, bytes: 16 });
  truncateSync(join(folder, "a"), 8);
  expect(await codeOf(() => slice.read())).toBe("TUTTI_INVALID_INPUT");
  await memory.unregister(undefined, "r");
  expect(await codeOf(() => slice.read())).toBe("TUTTI_INVALID_INPUT");
  expect(await codeOf(() => slice.write(new Uint8Array(1)))).toBe("TUTTI_INVALID_INPUT");
});

test("so many regions are registered and no more, in all and of an application", async () => {
  make("a");
  const few = opened({ regionsMax: 3, appMax: 2 });
  const register = (owner: string | undefined, name: string): Promise<string> =>
    codeOf(() => few.register(owner, region(name, "a"), UID));
  expect([await register("shop", "1"), await register("shop", "2")]).toEqual(["ok", "ok"]);
  expect(await register("shop", "3")).toBe("TUTTI_OVERLOADED");
  const both = await Promise.all([register("other", "1"), register("third", "1")]);
  expect(both.sort()).toEqual(["TUTTI_OVERLOADED", "ok"]);
  await few.unregister("shop", "1");
  expect([await register(undefined, "1"), await register(undefined, "2")]).toEqual(["ok", "TUTTI_OVERLOADED"]);
  await few.close();
});

test("where it is off nothing is done, and what turns it on is said", async () => {
  make("a");
  const off = opened({ isOpen: false });
  const slice = { region: "r", offset: 0, bytes: 1 };
  expect(await codeOf(() => off.register(undefined, region("r", "a"), UID))).toBe("TUTTI_FORBIDDEN");
  expect(await codeOf(() => off.unregister(undefined, "r"))).toBe("TUTTI_FORBIDDEN");
  expect(() => off.status(undefined, undefined)).toThrow("--system-shared-memory");
  expect(() => off.slice(undefined, slice)).toThrow("--system-shared-memory");
});
