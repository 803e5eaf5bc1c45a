import { expect, test } from "vitest";
import { unlessDenied } from "./refused.ts";

/** Both connections say nothing; the store's own error tells of the refusal. */
const quiet = { onStatus: () => ({ stop: () => undefined }) };
const nats = { control: quiet, bulk: quiet } as unknown as Parameters<typeof unlessDenied>[0];
const refusal = async (cluster: { readonly credentials: string | undefined; readonly isForApps?: boolean }) => {
  const denied = new Error('Permissions Violation for Publish to "$JS.API.INFO"');
  const work = unlessDenied(nats, { servers: ["nats://joe:s3cret@n"], ...cluster }, () =>
    Promise.reject<Error>(denied),
  );
  return work.catch((error: Error) => error);
};

test("an application that asks by a command hears that its credentials are for programs, others only what to name", async () => {
  const operator = /name the operator's with --creds \S+/;
  const own = { credentials: "app-shop.nk" };
  const app = await refusal({ ...own, isForApps: true });
  expect(app).toMatchObject({ code: "TUTTI_FORBIDDEN" });
  expect(app.message).toContain(
    "nats://***@n does not allow this with app-shop.nk ($JS.API.INFO): the command looks models up",
  );
  expect(app.message).toContain("docs/guides/publisher.md");
  expect(app.message).toMatch(operator);
  for (const cluster of [own, { credentials: undefined, isForApps: true }]) {
    const { message } = await refusal(cluster);
    expect(message).not.toContain("docs/guides/publisher.md");
    expect(message).toMatch(operator);
  }
});
