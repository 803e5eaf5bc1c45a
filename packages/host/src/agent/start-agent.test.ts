import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";

test("an agent that no server has answered keeps no process once it is stopped", () => {
  const module = new URL("./start-agent.ts", import.meta.url).href;
  const script = `
    import { startAgent } from ${JSON.stringify(module)};
    const onTrouble = (text) => { throw new Error(text); };
    const agent = startAgent({ servers: "nats://127.0.0.1:1", cluster: "main", processManager: undefined, onTrouble });
    await new Promise((resolve) => setTimeout(resolve, 50));
    await agent.stop();`;
  const args = ["--conditions", "development", "--input-type=module", "-e", script];
  const { status, signal, stderr } = spawnSync(process.execPath, args, { timeout: 20_000, encoding: "utf8" });
  expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: "" });
});
