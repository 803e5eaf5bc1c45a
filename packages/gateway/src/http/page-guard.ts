/**
 * Keeps pages of other sites out. A page that somebody visits runs in a browser that reaches what the page can't: a
 * gateway on its loopback, or in its network.
 *
 *   PG1. A gateway that listens on loopback answers to `localhost`, to addresses and to the names that it was given: a
 *        page could otherwise point a name of its own here (DNS rebinding), and to the browser this would be the page's
 *        own site. One that listens elsewhere does so once it was given names.
 *   PG2. What a browser says another site's page asks is refused, but for a link that somebody follows.
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
  /** Names that it is known by; empty: none were given. */
  readonly allowedHosts: readonly string[];
}

export function pageGuard({ listensOn, allowedHosts }: PageGuardOptions): PageGuard {
  const names = new Set(allowedHosts);
  const anyName = !isLoopback(listensOn) && names.size === 0;
  /** Most requests are for the same one. */
  let known: string | undefined;
  return ({ headers }) => {
    const { host, origin, "sec-fetch-site": site, "sec-fetch-mode": mode } = headers;
    // Without one it is no browser, but a probe that speaks HTTP/1.0.
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

/** For what no page of another site has any use for, not even as a link. @throws {TuttiError} FORBIDDEN */
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
