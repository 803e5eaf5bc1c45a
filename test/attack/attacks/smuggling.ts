/** Attacks by requests whose end a proxy and the gateway behind it could see at different places. */
import type { Attack } from "../attack.ts";
import { exchange } from "../clients/http.ts";

/** A request in a body, which must never be read as a request. */
const HIDDEN = "GET /v2/models/add-one HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hidden: 1\r\n\r\n";
const length = Buffer.byteLength(HIDDEN);
const CHUNKED = `0\r\n\r\n${HIDDEN}`;

/** Header lines, and what follows them. */
const CASES: readonly (readonly [what: string, fields: readonly string[], body: string])[] = [
  ["a length and chunks", [`Content-Length: ${CHUNKED.length}`, "Transfer-Encoding: chunked"], CHUNKED],
  ["chunks and a length", ["Transfer-Encoding: chunked", `Content-Length: ${CHUNKED.length}`], CHUNKED],
  ["two lengths", ["Content-Length: 0", `Content-Length: ${length}`], HIDDEN],
  ["two lengths in one line", [`Content-Length: 0, ${length}`], HIDDEN],
  ["a signed length", ["Content-Length: +0"], HIDDEN],
  ["a negative length", ["Content-Length: -1"], HIDDEN],
  ["a length in hexadecimal", ["Content-Length: 0x0"], HIDDEN],
  ["a space before the colon", ["Content-Length: 0", "Transfer-Encoding : chunked"], CHUNKED],
  ["an unknown coding", ["Transfer-Encoding: xchunked"], CHUNKED],
  ["a coding after chunked", ["Transfer-Encoding: chunked, identity"], CHUNKED],
  ["a coding before chunked", ["Transfer-Encoding: identity, chunked"], CHUNKED],
  [
    "a coding before chunked, in a line of its own",
    ["Transfer-Encoding: identity", "Transfer-Encoding: chunked"],
    CHUNKED,
  ],
  ["two codings", ["Transfer-Encoding: identity", "Transfer-Encoding: chunked", "Content-Length: 5"], CHUNKED],
  ["a folded line", ["Content-Length: 0", "X: y", " Transfer-Encoding: chunked"], CHUNKED],
  ["a bare line feed", ["X: y\nTransfer-Encoding: chunked", `Content-Length: ${CHUNKED.length}`], CHUNKED],
  ["a chunk's length that overflows", ["Transfer-Encoding: chunked"], `10000000000000000\r\n${HIDDEN}`],
  ["a chunk's length in words", ["Transfer-Encoding: chunked"], `0x5\r\nhello\r\n${CHUNKED}`],
];

const smuggling: Attack = {
  name: "smuggling",
  what: `${CASES.length} requests with two ends (Content-Length beside Transfer-Encoding, twice, signed, folded, …)`,
  system: "open",
  async run({ http }) {
    const heard = await Promise.all(
      CASES.map(async ([what, fields, body]) => {
        const head = ["POST /v2/models/add-one/infer HTTP/1.1", "Host: 127.0.0.1", "tutti-app: a", ...fields, "", ""];
        const answers = await exchange(http, head.join("\r\n") + body, 1_500);
        return { what, answers };
      }),
    );
    return heard
      .filter(({ answers }) => /HTTP\/1\.1 2/.test(answers))
      .map(({ what, answers }) => `${what}: the hidden request was answered: ${answers.slice(0, 160)}`);
  },
};

export const smugglingAttacks: readonly Attack[] = [smuggling];
