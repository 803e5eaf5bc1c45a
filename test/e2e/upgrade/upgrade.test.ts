/** A rolling upgrade from the last release to this one and back, with real processes under load. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TUTTI_RELEASE } from "@tutti/protocol";
import { afterAll, expect, test } from "vitest";
import { ROOT } from "../tutti-up.ts";
import { copyRelease, lastRelease } from "./release-copy.ts";
import { rollingUpgrade } from "./rolling-upgrade.ts";

const folder = mkdtempSync(join(tmpdir(), "tutti-upgrade-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test(
  "an upgrade and the way back, one process at a time, lose and refuse no request and keep what is stored",
  { timeout: 400_000 },
  async (ctx) => {
    const release = lastRelease();
    if (typeof release === "string") return ctx.skip(release);
    copyRelease(release, folder);
    const { loads, releases, stored } = await rollingUpgrade(folder, ROOT);
    for (const [client, { asked, statuses }] of Object.entries(loads)) {
      expect(asked, client).toBeGreaterThan(200);
      expect(statuses, client).toEqual({ ok: asked });
    }
    expect(releases).toContain(TUTTI_RELEASE);
    expect(releases).toHaveLength(2);
    expect(stored[1]).toBe(stored[0]);
  },
);
