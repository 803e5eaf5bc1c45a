/** Attacks by an application with credentials of its own on another application's data (docs/security.md). */
import { encodeTensors } from "@tutti/wire";
import type { Attack, Scene } from "../attack.ts";
import { pause } from "../clients/http.ts";
import { RawNats, madeUpCredentials } from "../clients/nats.ts";

const payload = encodeTensors([
  { name: "x", type: "FP32", dims: [1, 4], data: new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer) },
]);
const headers = { "Content-Type": "application/vnd.tutti.tensor", "Tutti-Slo": "3s" };
/** Time after which no more answers come. */
const SILENCE_MS = 1_000;

/** Runs a case as either of two applications. */
async function asBoth(
  scene: Scene,
  run: (a: RawNats, b: RawNats) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const a = await RawNats.open(scene.nats, scene.credentialsOf("app-a"));
  const b = await RawNats.open(scene.nats, scene.credentialsOf("app-b"));
  try {
    return await run(a, b);
  } finally {
    a.close();
    b.close();
  }
}

const replies: Attack = {
  name: "reply-to-another",
  what: "an application that has its answer sent to another's inbox, or inside",
  system: "credentials",
  run: (scene) =>
    asBoth(scene, async (a, b) => {
      a.subscribe("_INBOX.a.>");
      b.subscribe("_INBOX.b.>");
      await Promise.all([a.flush(), b.flush()]);
      const inside = [
        "_INBOX_ingress.x",
        "_INBOX.ab.x",
        "_INBOX.b",
        "$KV.tutti_models.add-one",
        "tutti.v1.main.all.batcher",
      ];
      for (const reply of ["_INBOX.b.stolen", "_INBOX.a.>", ...inside])
        a.publish("infer.add-one.a", payload, { reply, headers });
      a.publish("infer.add-one.a", payload, { reply: "_INBOX.a.own", headers });
      const own = await a.next(({ subject }) => subject === "_INBOX.a.own", 4_000);
      if (own === undefined || own.headers.includes("Error")) throw new Error("a request of its own is not served");
      await pause(SILENCE_MS);
      return b.messages.map(({ subject }) => `an answer came to another's inbox: ${subject}`);
    }),
};

const SUBJECTS = [
  ...["tutti.v1.main.beat.ranker", "tutti.v1.main.to.1", "tutti.v1.main.all.executor", "tutti.v1.main.admin.agents"],
  ...["tutti.v1.main.bulk.1", "tutti.v1.main.stats.ingress", "tutti.v1.main.advice"],
  ...["$KV.tutti_models.add-one", "$KV.tutti_leases.ranker.main", "$O.tutti_files.C.x", "$SRV.PING"],
  ...[
    "$JS.API.STREAM.DELETE.KV_tutti_models",
    "$JS.API.STREAM.INFO.KV_tutti_models",
    "$JS.API.INFO",
    "$SYS.REQ.SERVER.PING",
  ],
];

const names: Attack = {
  name: "speak-as-another",
  what: "an application that asks, cancels or speaks under another's name, or inside",
  system: "credentials",
  run: (scene) =>
    asBoth(scene, async (a) => {
      const subjects = ["infer.add-one.b", "infer.add-one", "infer.add-one.a.b", "cancel.b", "_INBOX.b.x", ...SUBJECTS];
      for (const subject of subjects) a.publish(subject, payload, { reply: "_INBOX.a.x", headers });
      await a.flush();
      await pause(300);
      const refused = a.errors.join("\n").toLowerCase();
      return subjects
        .filter((subject) => !refused.includes(`publish to "${subject.toLowerCase()}"`))
        .map((subject) => `it may publish to ${subject}`);
    }),
};

const listening: Attack = {
  name: "listen-to-others",
  what: "an application that subscribes to others' inboxes and requests, and to what is said inside",
  system: "credentials",
  run: (scene) =>
    asBoth(scene, async (a) => {
      const wild = [
        ">",
        "*.>",
        "_INBOX.>",
        "_INBOX.*.>",
        "infer.>",
        "infer.*.*",
        "cancel.*",
        "tutti.>",
        "$KV.>",
        "$SYS.>",
      ];
      const subjects = ["_INBOX.b.>", "_INBOX.b.x", "infer.add-one.a", ...wild, ...SUBJECTS];
      for (const subject of subjects) a.subscribe(subject);
      await a.flush();
      await pause(300);
      const refused = a.errors.join("\n").toLowerCase();
      return subjects
        .filter((subject) => !refused.includes(`subscription to "${subject.toLowerCase()}"`))
        .map((subject) => `it may subscribe to ${subject}`);
    }),
};

const strangers: Attack = {
  name: "no-credentials",
  what: "whoever has no credentials, or made some for himself",
  system: "credentials",
  async run(scene) {
    const broken: string[] = [];
    for (const credentials of [undefined, madeUpCredentials()]) {
      const nats = await RawNats.open(scene.nats, credentials).catch(() => undefined);
      if (nats !== undefined)
        broken.push(`it may connect ${credentials === undefined ? "without" : "with made-up"} credentials`);
      nats?.close();
    }
    return broken;
  },
};

export const applicationAttacks: readonly Attack[] = [replies, names, listening, strangers];
