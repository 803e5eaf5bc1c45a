import { expect, test } from "vitest";
import { shownAddresses } from "./addresses.ts";

test("addresses are shown without users, passwords and tokens, however these are written", () => {
  const written = [
    "nats://u:p,w@a:1",
    "nats://u:p@ss@b",
    "tls://t0ken@c",
    "nats://u:p?w@d",
    "wss://e:p/f@g",
    "nats://h",
  ];
  const shown = "nats://***@a:1,nats://***@b,tls://***@c,nats://***@d,wss://***@g,nats://h";
  expect(shownAddresses(written.join(","))).toBe(shown);
  expect(shownAddresses(written.join(",").split(","))).toBe(shown);
  expect(shownAddresses("u:s3cret@a:4222,b:4222")).toBe("***@a:4222,b:4222");
  expect(shownAddresses("nats://h?q=1@x&token=abc")).toBe("nats://***");
});
