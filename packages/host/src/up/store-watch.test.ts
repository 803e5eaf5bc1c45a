import { tmpdir } from "node:os";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { StoreWatch, freeBytes, checkRoom } from "./store-watch.ts";

const OFF = "[ERR] JetStream out of File resources, will be DISABLED";
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function scene() {
  const said: string[] = [];
  const disk = { free: 0 };
  const watch = new StoreWatch({
    freeBytes: () => disk.free,
    say: (event) => void said.push(event),
    restart: () => void said.push("restart"),
  });
  return { watch, said, disk };
}

test("a server whose store is off is started again once there is room, and not before", () => {
  const { watch, said, disk } = scene();
  watch.hear("[ERR] JetStream failed to store a msg: no space left on device");
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual([]);
  for (let i = 0; i < 3; i++) watch.hear(OFF);
  disk.free = 1_000_000;
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual(["store-full"]);
  disk.free = 1e9;
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual(["store-full", "store-room", "restart"]);
});

test("one that was started again meanwhile, or is stopped, is left alone", () => {
  const { watch, said, disk } = scene();
  watch.hear(OFF);
  watch.stop();
  disk.free = 1e9;
  vi.advanceTimersByTime(60_000);
  expect(said).toEqual(["store-full"]);
});

test("how much is free is asked of the disk", () => {
  expect(freeBytes(tmpdir())).toBeGreaterThan(0);
  expect(freeBytes("/nowhere")).toBeUndefined();
});

test("a folder with no room for a store is refused before a server starts, with how much there is", () => {
  expect(() => checkRoom("/run", 1_048_576)).toThrow(
    "/run has 1.0 MiB of room, and a NATS server's store needs 16.0 MiB: free some space there, or name another folder with TUTTI_RUN_DIR",
  );
  checkRoom("/run", 16_777_216);
  checkRoom("/nowhere");
});
