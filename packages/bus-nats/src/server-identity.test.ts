import type { PeerCertificate } from "node:tls";
import { expect, test } from "vitest";
import { identityCheck } from "./server-identity.ts";

const certificateOf = (subjectaltname: string) => ({ subject: {}, subjectaltname }) as unknown as PeerCertificate;
/** Node checks this name where the client gives none, as for an address. */
const NO_NAME = "localhost";

test.each([["127.0.0.1"], ["127.0.0.1:4222"], ["nats://127.0.0.1:4222"], ["tls://user:password@127.0.0.1:4222"]])(
  "a certificate that names the address is that of the server: %s",
  (server) => {
    const check = identityCheck(["nats://other.example:4222", server]);
    expect(check(NO_NAME, certificateOf("IP Address:127.0.0.1"))).toBeUndefined();
    expect(check(NO_NAME, certificateOf("DNS:localhost"))).toBeUndefined();
    expect(check(NO_NAME, certificateOf("DNS:nats.example, IP Address:10.0.0.9"))).toMatchObject({
      message: expect.stringContaining("IP: 127.0.0.1 is not in the cert's list") as unknown,
    });
  },
);

test("an address of version 6 is compared with the certificate's", () => {
  const check = identityCheck(["nats://[::1]:4222"]);
  expect(check(NO_NAME, certificateOf("IP Address:0:0:0:0:0:0:0:1"))).toBeUndefined();
});

test("a server that is asked for by its name must have that name", () => {
  const check = identityCheck(["nats://127.0.0.1:4222", "nats://nats.example:4222"]);
  expect(check("nats.example", certificateOf("IP Address:127.0.0.1"))).toBeInstanceOf(Error);
  expect(check("nats.example", certificateOf("DNS:nats.example"))).toBeUndefined();
});
