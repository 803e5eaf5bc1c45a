/** Attacks by the content of requests: content types, names and numbers on which a parser may fail. */
import type { Attack, Scene } from "../attack.ts";
import { GrpcConnection, STATUS, inferMessage } from "../clients/grpc.ts";
import { ask } from "../clients/http.ts";
import { RawNats } from "../clients/nats.ts";
import { WIDE } from "../systems.ts";

const INHERITED = ["constructor", "__proto__", "toString"];
/** Some more messages than the ingress' decoder lets wait. */
const MESSAGES = 70;

const wideBody = JSON.stringify({
  inputs: [{ name: "x", datatype: "FP32", shape: [1, WIDE], data: new Array<number>(WIDE).fill(0.25) }],
});

/** A body longer than an ingress reads at once, of whatever type. */
const paddedBody = wideBody + " ".repeat(1_200_000);

const contentTypes: Attack = {
  name: "content-types",
  what: `${MESSAGES} long bodies over NATS, of each type that every object inherits (${INHERITED.join(", ")})`,
  system: "open",
  async run({ nats: url }) {
    const nats = await RawNats.open(url);
    try {
      nats.subscribe("_INBOX.a.>");
      for (const type of INHERITED)
        for (let i = 0; i < MESSAGES; i++)
          nats.publish("infer.wide.a", paddedBody, {
            reply: `_INBOX.a.${type}-${i}`,
            headers: { "Content-Type": type, "Tutti-Slo": "1s" },
          });
      await nats.flush();
      const headers = { "Content-Type": "application/json", "Tutti-Slo": "3s" };
      nats.subscribe("_INBOX.b.>");
      nats.publish("infer.wide.b", wideBody, { reply: "_INBOX.b.good", headers });
      const good = await nats.next(({ subject }) => subject === "_INBOX.b.good", 5_000);
      if (good === undefined) return ["a long body of another application was not answered after them"];
      if (good.headers.includes("Error"))
        return [`a long body of another application was refused after them: ${Buffer.from(good.payload).toString()}`];
      const sent = MESSAGES * INHERITED.length + 1;
      if (await nats.received(sent, 5_000)) return [];
      return [`${sent - nats.messages.length} of ${sent} were never answered`];
    } finally {
      nats.close();
    }
  },
};

const PARAMETERS = 10_000;

const names: Attack = {
  name: "names-and-numbers",
  what: `1e400, inputs named ${INHERITED.join(", ")}, ${PARAMETERS} parameters`,
  system: "open",
  async run(scene) {
    const parameters = Object.fromEntries(Array.from({ length: PARAMETERS }, (_, i) => [`p${i}`, i]));
    const inputs = `[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]`;
    const cases: readonly (readonly [what: string, body: string, named: string])[] = [
      ["1e400", `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,1e400]}]}`, ""],
      ...INHERITED.map(
        (name) =>
          [
            `an input named ${name}`,
            `{"inputs":[{"name":"${name}","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`,
            name,
          ] as const,
      ),
      [`${PARAMETERS} parameters over HTTP`, `{"parameters":${JSON.stringify(parameters)},"inputs":${inputs}}`, ""],
    ];
    const broken: string[] = [];
    for (const [what, body, named] of cases) {
      const { status, text } = await ask(`${scene.http}/v2/models/add-one/infer`, {
        body,
        headers: { "tutti-app": "a" },
      });
      if (status !== 400) broken.push(`${what}: answered with ${status}, not 400`);
      else if (!text.includes(named)) broken.push(`${what}: the refusal doesn't name it: ${text.slice(0, 160)}`);
    }
    return [...broken, ...(await overGrpc(scene))];
  },
};

async function overGrpc({ grpc }: Scene): Promise<string[]> {
  const connection = await GrpcConnection.open(grpc);
  try {
    const input = { name: "x", shape: [1, 4] };
    const few = { model: "add-one", input, row: Float32Array.of(1, 2, 3, 4) };
    const good = await connection.ask("ModelInfer", inferMessage(few), { "tutti-app": "a" });
    if (good.status !== STATUS.ok) throw new Error(`a good call was answered with ${good.status}: ${good.text}`);
    const many = await connection.ask("ModelInfer", inferMessage({ ...few, parameters: PARAMETERS }), {
      "tutti-app": "a",
    });
    return many.status === STATUS.invalid ? [] : [`${PARAMETERS} parameters over gRPC: answered with ${many.status}`];
  } finally {
    connection.close();
  }
}

export const contentAttacks: readonly Attack[] = [contentTypes, names];
