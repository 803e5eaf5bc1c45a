import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ONNXRUNTIME_WANTED } from "@tutti/engine-onnx";
import { TUTTI_RELEASE } from "@tutti/protocol";
import { expect, test } from "vitest";
import { type Parts, judgeParts, mismatchesOf, readParts } from "./parts.ts";

const FITTING: Parts = {
  ...{ tutti: TUTTI_RELEASE, node: "24.21.0", natsServer: "2.15.1", onnxruntime: ONNXRUNTIME_WANTED },
  client: TUTTI_RELEASE,
};

test("parts of one release fit, with a client in the project or without", () => {
  expect(mismatchesOf(FITTING)).toEqual([]);
  expect(judgeParts({ ...FITTING, client: undefined })).toEqual({
    ...{ check: "versions", state: "ok" },
    found: `tutti ${TUTTI_RELEASE}, onnxruntime ${ONNXRUNTIME_WANTED}`,
  });
});

test("a client of another release is one line with the remedy", () => {
  const parts = { ...FITTING, tutti: "0.2.0", client: "0.1.0" };
  expect(mismatchesOf(parts)).toEqual(["@tutti/client is 0.1.0, and tutti is 0.2.0: npm install @tutti/client@0.2.0"]);
  expect(judgeParts(parts)).toMatchObject({ state: "warn", next: "npm install @tutti/client@0.2.0" });
});

test("an onnxruntime that is missing or another one is named", () => {
  const named = (onnxruntime: string | undefined) => mismatchesOf({ ...FITTING, onnxruntime })[0];
  expect(named("1.2.3")).toContain(`onnxruntime-node is 1.2.3, and tutti ${TUTTI_RELEASE} needs ${ONNXRUNTIME_WANTED}`);
  expect(named(undefined)).toContain("onnxruntime-node is not installed");
});

test("the client is the one that the project would import", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tutti-parts-"));
  try {
    expect((await readParts(folder)).client).toBe(undefined);
    mkdirSync(join(folder, "node_modules/@tutti/client"), { recursive: true });
    writeFileSync(join(folder, "node_modules/@tutti/client/package.json"), '{"version":"0.0.7"}');
    const { client, node, onnxruntime } = await readParts(folder);
    expect([client, node, onnxruntime]).toEqual(["0.0.7", process.versions.node, ONNXRUNTIME_WANTED]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
