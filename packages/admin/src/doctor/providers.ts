/** Tests which execution providers work here. Each runs in its own process, since a bad driver crashes its process. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { PROVIDERS, type Provider } from "@tutti/engine-onnx";
import type { Finding } from "./finding.ts";

const TRY_MS = 30_000;
const PROBE = new URL("./provider-probe.ts", import.meta.url);

/** Undefined: the provider works. */
export type Trouble = string | undefined;

export function judgeProvider(provider: Provider, trouble: Trouble, hasNvidia: boolean): Finding {
  const check = `provider ${provider}`;
  if (trouble === undefined) return { check, state: "ok", found: `works (--provider ${provider})` };
  if (provider === "cpu")
    return {
      check,
      state: "fail",
      found: trouble,
      why: "Executors can't run any model without it, and every other provider is compared with it.",
      next: "install the packages again: `npm ci`",
    };
  const isExpected = provider === "cuda" && hasNvidia;
  return {
    check,
    state: isExpected ? "warn" : "note",
    found: "not usable here",
    why: trouble,
    ...(isExpected && { next: "there is an NVIDIA driver: what is missing stands above" }),
  };
}

export async function tryProviders(): Promise<Finding[]> {
  const hasNvidia = existsSync("/proc/driver/nvidia/version");
  return Promise.all(
    PROVIDERS.map(async (provider) => judgeProvider(provider, await tryProvider(provider), hasNvidia)),
  );
}

function tryProvider(provider: Provider): Promise<Trouble> {
  return new Promise((resolve) => {
    const options = { timeout: TRY_MS, killSignal: "SIGKILL" } as const;
    execFile(process.execPath, [fileURLToPath(PROBE), provider], options, (error, stdout) => {
      if (error === null) resolve(undefined);
      else if (stdout.trim() !== "") resolve(stdout.trim());
      else
        resolve(
          error.killed === true
            ? `it did not answer within ${TRY_MS / 1_000} s`
            : `trying it ended its process (${error.signal ?? error.code})`,
        );
    });
  });
}
