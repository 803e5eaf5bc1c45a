/** docs/reference/errors.md: codes, from `packages/protocol`, and what each becomes over HTTP and gRPC. */
import { status } from "@grpc/grpc-js";
import { GRPC_STATUS } from "@tutti/gateway";
import * as protocol from "@tutti/protocol";
import { propertiesOf, table } from "./code-comments.ts";

export function errorsReference(): string {
  const meanings = new Map(
    propertiesOf("packages/protocol/src/errors.ts", "ERROR_STATUS").map(({ name, comment }) => [name, comment]),
  );
  const codes = Object.entries(protocol.ERROR_STATUS) as [protocol.ErrorCode, number][];
  return [
    "# Errors",
    'An error is a JSON body `{"error": text, "code": "TUTTI_…", "retryable": bool, "retryAfterMs": n}`; over NATS with the headers `Nats-Service-Error` and `Nats-Service-Error-Code`, over HTTP with the status and `Retry-After`, over gRPC with the status and the trailers `tutti-code`, `tutti-retryable` and `tutti-retry-after-ms`.',
    "",
    "Match on the code; the text is for people. What to do about each: [messages](../messages.md#errors).",
    "May the same request be sent again, unchanged? The column says what a code answers by itself; the body of a particular answer counts.",
    table(
      ["code", "NATS, HTTP", "gRPC", "retryable", "when"],
      codes.map(([code, http]) => [
        `\`${code}\``,
        String(http),
        `\`${status[GRPC_STATUS[code]]}\``,
        protocol.isRetryable(code) ? "yes" : "no",
        meanings.get(code) ?? "",
      ]),
    ),
  ].join("\n\n");
}
