/**
 * Keeps pages of other sites out. A browser that shows such a page can reach hosts that the page's server can't: a
 * gateway on its loopback, or in its network.
 *
 *   PG1. A gateway that listens on loopback answers to `localhost`, to addresses and to its configured names. A page
 *        could otherwise point a name of its own here (DNS rebinding), and to the browser this would be the page's own
 *        site. A gateway that listens elsewhere checks names only if it has configured ones.
 *   PG2. A request that the browser marks as another site's is refused, except when the user follows a link.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { TuttiError } from "@tutti/protocol";
import { isLoopback } from "../listening.ts";

/** @throws {TuttiError} FORBIDDEN */
export type PageGuard = (request: IncomingMessage) => void;

export interface PageGuardOptions {
  /** The address of the server. */
  readonly listensOn: string;
  /** Configured host names; empty: none. */
  readonly allowedHosts: readonly string[];
}

export function pageGuard({ listensOn, allowedHosts }: PageGuardOptions): PageGuard {
  const names = new Set(allowedHosts);
  const anyName = !isLoopback(listensOn) && names.size === 0;
  /** The last accepted Host header: most requests have the same one. */
  let known: string | undefined;
  return ({ headers }) => {
    const { host, origin, "sec-fetch-site": site, "sec-fetch-mode": mode } = headers;
    // A request without a Host header comes from no browser, but from a probe that speaks HTTP/1.0.
    if (!anyName && host !== undefined && host !== known) {
      const name = hostnameOf(host);
      if (isIP(name) === 0 && name !== "localhost" && !name.endsWith(".localhost") && !names.has(name))
        throw forbidden(
          `this gateway isn't known as "${name.slice(0, 80)}": ask its address, or start it with --allowed-hosts`,
        );
      known = host;
    }
    const isForeign = origin === undefined ? site === "cross-site" && mode !== "navigate" : hostOf(origin) !== host;
    if (isForeign) throw forbidden("pages of other sites may not ask here");
  };
}

/** Refuses other sites' pages, even links from them. @throws {TuttiError} FORBIDDEN */
export function refuseOtherSites({ headers: { "sec-fetch-site": site } }: IncomingMessage): void {
  if (site === undefined || site === "same-origin" || site === "none") return;
  throw forbidden("pages of other sites may not ask here");
}

const hostOf = (origin: string): string | undefined => (URL.canParse(origin) ? new URL(origin).host : undefined);
const hostnameOf = (host: string): string => {
  const url = URL.canParse(`http://${host}`) ? new URL(`http://${host}`) : undefined;
  return url?.hostname.replace(/^\[|\]$/g, "") ?? "";
};
const forbidden = (text: string): TuttiError => new TuttiError("TUTTI_FORBIDDEN", text);
