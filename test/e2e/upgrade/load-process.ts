/** Requests at a steady rate, through the client of a release: `load-process.ts <release's folder> <url> <model>`. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type * as Client from "@tutti/client";
import { SteadyLoad } from "../steady-load.ts";

// The cluster that this process asks ends with its parent.
process.once("disconnect", () => process.exit());
const [folder = "", servers = "", model = ""] = process.argv.slice(2);
const { connect } = (await import(pathToFileURL(join(folder, "packages/client/src/index.ts")).href)) as typeof Client;
const client = await connect({ servers, app: "upgrade" });
const load = new SteadyLoad(client, { model, perSecond: 25, sloMs: 20_000 });
load.start();
process.once("message", () => {
  void load.stop().then(
    async (settled) => {
      await client.close();
      process.send?.({ asked: settled.length, statuses: JSON.parse(load.summary()) as object });
      process.disconnect();
    },
    (error: unknown) => {
      process.send?.({ asked: 0, statuses: { [String(error)]: 1 } });
      process.exit(1);
    },
  );
});
await load.until("ok", 0, 60_000, 50);
process.send?.({ ready: true });
