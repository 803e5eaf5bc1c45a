/** Attacks by a web page that has its visitor's browser send requests to a gateway on loopback. */
import type { Attack } from "../attack.ts";
import { type HttpQuestion, ask } from "../clients/http.ts";

const BODY = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`;
const EVIL = "evil.example";
const PATHS = ["/v2", "/v2/models/add-one", "/v2/models/add-one/config", "/v2/models/add-one/stats", "/console/feed"];

interface Case {
  readonly url: string;
  readonly question: HttpQuestion;
}

/** @returns the cases that were answered with success, named by `what` */
async function answered(cases: readonly Case[], what: (one: Case) => string): Promise<string[]> {
  const broken: string[] = [];
  for (const one of cases) {
    const { status } = await ask(one.url, { timeoutMs: 1_000, ...one.question });
    if (status === 0 || status >= 400) continue;
    broken.push(`${what(one)}: answered with ${status}`);
  }
  return broken;
}

const rebinding: Attack = {
  name: "foreign-host",
  what: "names that lead to loopback (DNS rebinding): on /v2, on the console, on metrics",
  system: "open",
  async run({ http, metrics }) {
    const hosts = [EVIL, `${EVIL}:8000`, `127.0.0.1.${EVIL}`, `localhost.${EVIL}`, `${EVIL}#127.0.0.1`];
    const cases = hosts.flatMap((host) => [
      ...PATHS.map((path) => ({ url: http + path, question: { headers: { host } } })),
      { url: `${http}/v2/models/add-one/infer`, question: { body: BODY, headers: { host, "tutti-app": "b" } } },
      { url: `${metrics}/metrics`, question: { headers: { host } } },
    ]);
    return answered(cases, ({ url, question }) => `${new URL(url).pathname} of ${String(question.headers?.["host"])}`);
  },
};

const origins: Attack = {
  name: "foreign-origin",
  what: "pages of other sites (Origin), also those without one (null)",
  system: "open",
  async run({ http, adminToken }) {
    const cases = [`http://${EVIL}`, "null", `${http}.${EVIL}`, "https://127.0.0.1:1"].flatMap((origin) => {
      const headers = { origin, "content-type": "text/plain", "tutti-app": "b" };
      const authorization = `Bearer ${adminToken}`;
      return [
        ...PATHS.map((path) => ({ url: http + path, question: { headers: { origin } } })),
        { url: `${http}/v2/models/add-one/infer`, question: { body: BODY, headers } },
        {
          url: `${http}/v2/repository/models/add-one/unload`,
          question: { body: "{}", headers: { ...headers, authorization } },
        },
        { url: `${http}/console/replay`, question: { body: "{}", headers } },
      ];
    });
    return answered(
      cases,
      ({ url, question }) => `${new URL(url).pathname} of ${String(question.headers?.["origin"])}`,
    );
  },
};

const fetches: Attack = {
  name: "fetch-metadata",
  what: "requests that a browser marks as another site's (Sec-Fetch-Site), on the feed and elsewhere",
  system: "open",
  async run({ http }) {
    const cases = ["cross-site", "same-site"].flatMap((site) => {
      const headers = { "sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script" };
      return ["/console/feed", "/console/traces"].map((path) => ({ url: http + path, question: { headers } }));
    });
    return answered(
      cases,
      ({ url, question }) => `${new URL(url).pathname}, ${String(question.headers?.["sec-fetch-site"])}`,
    );
  },
};

export const browserAttacks: readonly Attack[] = [rebinding, origins, fetches];
