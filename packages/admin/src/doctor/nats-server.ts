/** Checks the nats-server that `tutti up` would start. */
import { SERVER_VERSION_MIN, findNatsServer, isAtLeast } from "@tutti/bus-nats";
import type { Finding } from "./finding.ts";
import { versionOfServer } from "./parts.ts";

const check = "nats-server";
/** Older servers work, without some of what these do (infra/README.md). */
const SERVER_VERSION_GOOD = "2.10.0";
const NEXT = "`tutti up` brings one; TUTTI_NATS_SERVER names one";

/** @param version - output of `nats-server --version`; undefined: it did not answer */
export function judgeServer(path: string, version: string | undefined): Finding {
  if (version === undefined)
    return { check, state: "fail", found: `${path} does not answer to --version`, why: "It is no server.", next: NEXT };
  const found = `${version}, with JetStream (${path})`;
  if (isAtLeast(version, SERVER_VERSION_GOOD)) return { check, state: "ok", found };
  if (isAtLeast(version, SERVER_VERSION_MIN)) {
    const why = `It works, but a cluster of such servers may keep changes twice, and limits and reloads are coarser than from ${SERVER_VERSION_GOOD} on.`;
    return {
      check,
      state: "note",
      found,
      why,
      next: "put a newer nats-server on the PATH, or name it in TUTTI_NATS_SERVER",
    };
  }
  return {
    check,
    state: "fail",
    found: `${version} (${path}); ${SERVER_VERSION_MIN} is the oldest that does`,
    why: "Leases and plans lie in JetStream, whose compare-and-set and watches older servers lack or get wrong.",
    next: NEXT,
  };
}

export async function lookAtServer(): Promise<Finding> {
  let path: string;
  try {
    path = findNatsServer();
  } catch (error) {
    const why = "Everything that actors say to each other goes through one. A cluster elsewhere needs none here.";
    return { check, state: "warn", found: (error as Error).message.split(":")[0]!, why, next: NEXT };
  }
  return judgeServer(path, await versionOfServer(path));
}
