/**
 * Gives every workspace package the targets `lint`, `typecheck` and `test`, so that a new package needs no nx
 * configuration. Types are checked as one program (infra/README.md), so `typecheck` belongs to the root project alone.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** @typedef {Record<string, object>} Targets */

/** @type {Targets} */
const rootTargets = {
  typecheck: {
    command: "tsc -p .",
    cache: true,
    inputs: ["{workspaceRoot}/{packages,services,test,infra}/**/*.{ts,mjs,json}", "toolchain"],
    outputs: [],
  },
  format: {
    command: "prettier --check --log-level warn .",
    cache: true,
    inputs: ["{workspaceRoot}/**/*.{ts,mjs,json,yaml,yml}", "{workspaceRoot}/.prettier*"],
    outputs: [],
  },
};

/** @param {string} root @returns {Targets} */
const packageTargets = (root) => ({
  lint: {
    command: `eslint --no-error-on-unmatched-pattern ${root}`,
    cache: true,
    inputs: ["default", "^default"],
    outputs: [],
  },
  test: {
    command: root === "test" ? "node infra/test/run.ts suites" : `vitest run --project unit --passWithNoTests ${root}/`,
    cache: root !== "test",
    inputs: ["default", "^default"],
    outputs: [],
  },
});

/** @type {import("@nx/devkit").CreateNodesV2} */
export const createNodesV2 = [
  "{package.json,packages/*/package.json,services/*/package.json,test/package.json}",
  (files, _options, context) =>
    files
      .filter((file) => existsSync(join(context.workspaceRoot, file)))
      .map((file) => {
        const root = dirname(file);
        const targets = root === "." ? rootTargets : packageTargets(root);
        return [file, { projects: { [root]: { root, targets } } }];
      }),
];
