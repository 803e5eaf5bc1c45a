/** Runs `npm run attack -- --short`; the failure of a test names the attacks that succeeded, and how. */
import { expect, test } from "vitest";
import { brokenText } from "./attack.ts";
import { attackRun } from "./attack-run.ts";
import { ATTACKS } from "./attacks/all.ts";

/** Time limit. The attacks take 40 s where everything holds; broken ones take longer, and must be reported by name. */
const LIMIT_MS = 300_000;

test(
  "no attack from outside succeeds, and others are served meanwhile (docs/security.md)",
  async () => {
    const results = await attackRun({ attacks: ATTACKS, size: "short" });
    const broken = results.filter((result) => result.broken.length > 0);
    expect(broken.map((result) => `${result.name}: ${brokenText(result)}`)).toEqual([]);
    expect(results.map(({ name }) => name).toSorted()).toEqual(ATTACKS.map(({ name }) => name).toSorted());
  },
  LIMIT_MS,
);
