import type { Store, StoreFailure } from "@tutti/ports/store";
import { expect, test } from "vitest";
import { putFile } from "./store-calls.ts";

test.each([
  ["write 1.blk: no space left on device", "make room where the NATS server keeps its store"],
  ["insufficient storage resources available", "make room where the NATS server keeps its store"],
  ["no responders", "check that the NATS server runs with JetStream"],
])("a store that fails with '%s' is reported with what helps", async (failure, advice) => {
  const put = (_: string, __: Uint8Array, done: (result: StoreFailure) => void): void => done({ failure });
  const failing = { files: { put } } as unknown as Store;
  await expect(putFile(failing, "f", new Uint8Array(1))).rejects.toThrow(`storing the file f: ${failure}; ${advice}`);
});
