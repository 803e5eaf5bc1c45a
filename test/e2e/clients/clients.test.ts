/**
 * The clients of both languages on one table of cases: they publish equal bytes, and the same comes of each case,
 * before a scripted ingress and before a cluster with credentials and TLS.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { DATA_TYPES, type DataType } from "@tutti/protocol";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { blocksOf } from "../../fixtures/doc-blocks.ts";
import { type NatsFixture, startNats } from "../../fixtures/nats.ts";
import { pythonWith, runPython } from "../../fixtures/python.ts";
import { ROOT, TuttiUp, tutti } from "../tutti-up.ts";
import { type Answer, type ClientCase, LIVE, type Outcome, RANDOM, SCRIPTED, echoed, modelOfType } from "./cases.ts";
import { type Published, ScriptedIngress } from "./scripted-ingress.ts";
import { type Ran, runTypeScript } from "./typescript-client.ts";

const PACKAGES = ["nats-py[nkeys]==2.16.0", "numpy==2.2.6", "hatchling==1.31.0", "mypy==2.4.1", "ruff==0.17.6"];
const PACKAGE = join(ROOT, "clients/python");
const SCRIPT = join(import.meta.dirname, "python-client.py");
const LIFECYCLE = join(import.meta.dirname, "python-lifecycle.py");
const MISTAKES = join(import.meta.dirname, "python-mistakes.py");
const FACES = ["async", "threads"] as const;
/** Lines of code, without blanks, comments and docstrings. */
const LINES_MAX = 500;
const COUNT = `
import ast, io, pathlib, sys, tokenize
count = 0
for path in pathlib.Path(sys.argv[1]).glob("*.py"):
    text = path.read_text()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines = {n for t in tokens if t.type not in skipped for n in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    count += len(lines)
print(count)
`;
const execute = promisify(execFile);

let installed: Awaited<ReturnType<typeof pythonWith>>;
let folder: string;
let nats: NatsFixture | undefined;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tutti-clients-"));
  installed = await pythonWith("python-client", PACKAGES);
  if ("python" in installed) nats = await startNats();
}, 600_000);
const ingresses: ScriptedIngress[] = [];
async function startIngress(answers = new Map<string, readonly Answer[]>()): Promise<ScriptedIngress> {
  const ingress = await ScriptedIngress.start(nats!.url, answers);
  ingresses.push(ingress);
  return ingress;
}
afterEach(() => {
  for (const ingress of ingresses.splice(0)) ingress.stop();
});
beforeEach((context) => {
  if ("missing" in installed) context.skip(installed.missing);
});
afterAll(async () => {
  await nats?.stop();
  await rm(folder, { recursive: true, force: true });
});

interface Job {
  readonly servers: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly order: "together" | "apart";
  readonly cases: readonly ClientCase[];
}
const python = (): string => (installed as { readonly python: string }).python;
const environment = { PYTHONPATH: join(PACKAGE, "src"), PYTHONDONTWRITEBYTECODE: "1" };

interface FaceRan extends Ran {
  /** The connection was. */
  readonly refused?: Outcome;
}
async function runFace(face: (typeof FACES)[number], ...jobs: readonly Job[]): Promise<readonly FaceRan[]> {
  const file = join(folder, "jobs.json");
  await writeFile(file, JSON.stringify(jobs));
  return runPython(python(), [SCRIPT, face, file], environment) as Promise<FaceRan[]>;
}

function answersOf(cases: readonly ClientCase[]): Map<string, readonly Answer[]> {
  const answers = new Map<string, readonly Answer[]>();
  for (const { model, answers: own = [] } of cases) answers.set(model, [...(answers.get(model) ?? []), ...own]);
  return answers;
}

function checkOutcomes(cases: readonly ClientCase[], outcomes: readonly Outcome[]): void {
  for (const [i, { name, inputs, expect: expected }] of cases.entries()) {
    const outputs = Object.fromEntries(Object.entries(inputs).map(([key, tensor]) => [echoed(key), tensor]));
    expect(outcomes[i], name).toMatchObject(expected ?? { outputs });
  }
}

const RANDOM_ID = /^Nats-Msg-Id: [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\r$/m;
/** A message without what differs from run to run: ids, reply subjects, and times that are left. */
function comparable({ subject, reply, headers, payload }: Published) {
  const text = headers.replace(RANDOM_ID, "Nats-Msg-Id: random\r");
  return {
    subject,
    headers: subject.startsWith("infer.cut-")
      ? text.replace(/^Tutti-Slo: [5-9]\d{5}us\r$/m, "Tutti-Slo: left\r")
      : text,
    reply: reply.replace(/^(_INBOX\.\w+)\..+/, "$1"),
    payload: subject.startsWith("cancel.") ? "" : payload.toString("base64"),
  };
}

function checkPublished(cases: readonly ClientCase[], published: readonly Published[]): void {
  const requests = published.filter(({ subject }) => subject.startsWith("infer.") && !/\.nothing\./.test(subject));
  expect(requests.length).toBe(cases.reduce((sum, { attempts = 1 }) => sum + attempts, 0));
  const ids = requests
    .filter(({ subject }) => subject === "infer.retried.shop")
    .map(({ headers }) => RANDOM_ID.exec(headers)?.[0]);
  expect([ids.length, new Set(ids).size, ids.includes(undefined)]).toEqual([3, 1, false]);
  // A request is cancelled by the subject for its answer, and only the one that was.
  const cancels = published.filter(({ subject }) => subject.startsWith("cancel."));
  const slow = requests.filter(({ subject }) => subject === "infer.slow.shop");
  expect(cancels.map(({ subject, payload }) => [subject, payload.toString()])).toEqual(
    slow.map(({ reply }) => ["cancel.shop", reply]),
  );
}

test("both clients publish equal bytes, and the same comes of every case", { timeout: 180_000 }, async () => {
  const ingress = await startIngress(answersOf(SCRIPTED));
  const connection = { servers: nats!.url, app: "shop" };
  const scripted = await runTypeScript(connection, SCRIPTED, "apart");
  const random = await runTypeScript(connection, RANDOM, "together");
  const published = ingress.take();
  checkOutcomes(SCRIPTED, scripted.outcomes);
  checkOutcomes(RANDOM, random.outcomes);
  checkPublished([...SCRIPTED, ...RANDOM], published);
  const job = { servers: nats!.url, options: { app: "shop" } };
  for (const face of FACES) {
    const [ownScripted, ownRandom] = await runFace(
      face,
      { ...job, order: "apart", cases: SCRIPTED },
      { ...job, order: "together", cases: RANDOM },
    );
    const own = ingress.take();
    for (const [i, message] of published.entries()) expect(comparable(own[i]!)).toEqual(comparable(message));
    compareRuns(SCRIPTED, ownScripted!, scripted);
    compareRuns(RANDOM, ownRandom!, random);
    checkPublished([...SCRIPTED, ...RANDOM], own);
  }
});

function compareRuns(cases: readonly ClientCase[], ran: Ran, expected: Ran): void {
  for (const [i, { name }] of cases.entries())
    expect(withoutOwnWords(ran.outcomes[i]!), name).toEqual(withoutOwnWords(expected.outcomes[i]!));
  expect(ran.lateAnswers).toBe(expected.lateAnswers);
}

/**
 * Clients say in their own words what they refuse to send and what they can't read. A cluster's refusals name times
 * that it has measured.
 */
function withoutOwnWords(outcome: Outcome): unknown {
  if (!("code" in outcome)) return outcome;
  const { code, text } = outcome;
  const isOwn = ["TUTTI_INVALID_INPUT", "TUTTI_INTERNAL"].includes(code) && !text.startsWith("no, ");
  return { ...outcome, text: isOwn ? "" : text.replaceAll(/[\d.]+ m?s\b/g, "time") };
}

test("a cluster with credentials and TLS answers both clients alike", { timeout: 180_000 }, async () => {
  const { up, ca, credentials } = await startCluster();
  try {
    const common = { servers: up.url, app: "shop", credentials };
    const ran = await runTypeScript({ ...common, tls: { caFile: ca } }, LIVE, "together");
    checkOutcomes(LIVE, ran.outcomes);
    for (const face of FACES) {
      const options = { app: "shop", credentials, tls: ca };
      const [own] = await runFace(face, { servers: up.url, options, order: "together", cases: LIVE });
      compareRuns(LIVE, own!, ran);
    }
    await checkRefusals(up.url, ca, credentials);
  } finally {
    await up.stop();
  }
});

async function checkRefusals(url: string, ca: string, credentials: string): Promise<void> {
  const connections = [
    { code: "TUTTI_FORBIDDEN", why: "no credentials", caFile: ca },
    { code: "TUTTI_FORBIDDEN", why: "no such credentials file", caFile: ca, path: join(folder, "none.nk") },
    { code: "TUTTI_FORBIDDEN", why: "a file without a seed", caFile: ca, path: ca },
    { code: "TUTTI_UNAVAILABLE", why: "a server whose authority is unknown", path: credentials },
    { code: "TUTTI_UNAVAILABLE", why: "a server without TLS where it is demanded", caFile: ca, servers: nats!.url },
    { code: "TUTTI_UNAVAILABLE", why: "no server", servers: "nats://127.0.0.1:1,nats://127.0.0.1:2" },
  ];
  const jobs = connections.map(({ servers = url, caFile, path }): Job => {
    const options = { app: "shop", ...(path && { credentials: path }), ...(caFile && { tls: caFile }) };
    return { servers, options, order: "apart", cases: [] };
  });
  const refused = await runFace("threads", ...jobs);
  for (const [i, { code, why, servers = url, caFile, path }] of connections.entries()) {
    const options = { servers, app: "shop", ...(path && { credentials: path }), ...(caFile && { tls: { caFile } }) };
    await expect(runTypeScript(options, [], "apart"), why).rejects.toMatchObject({ code });
    expect(refused[i]?.refused, why).toMatchObject({ code });
  }
}

async function startCluster(): Promise<{ readonly up: TuttiUp; readonly ca: string; readonly credentials: string }> {
  const types = Object.keys(DATA_TYPES).map((type) => {
    const tensors = (name: string) => `[{ name: ${name}, type: ${type}, dims: [batch, 4] }]`;
    const name = modelOfType(type as DataType);
    return `{ name: ${name}, sloMs: 20000, batchMax: 8, alphaMs: 0.5, betaMs: 1, inputs: ${tensors("x")}, outputs: ${tensors("y")} }`;
  });
  const slow =
    "{ name: slow, sloMs: 8000, batchMax: 1, alphaMs: 2000, betaMs: 1, inputs: [{ name: x, dims: [batch, 4] }] }";
  const profiles = join(folder, "profiles.yaml");
  await writeFile(profiles, `models: [${[...types, slow].join(", ")}]\n`);
  const auth = join(folder, "auth");
  expect((await tutti(["auth", "init", "--dir", auth, "--tls"])).code).toBe(0);
  const tls = (name: string): string => join(auth, "tls", name);
  const files = ["--tls-ca", tls("ca.pem"), "--tls-cert", tls("nats.pem"), "--tls-key", tls("nats-key.pem")];
  const up = await TuttiUp.start([
    "--emulate",
    profiles,
    "--gpus",
    "2",
    "--apps",
    "shop",
    "--policy",
    "eager",
    ...files,
  ]);
  const credentials = join(up.runDirectory, new URL(up.url).port, "creds", "app-shop.nk");
  return { up, ca: tls("ca.pem"), credentials };
}

test("the Python client ends what is in flight when it closes, and comes back after its server", async () => {
  const ingress = await startIngress(new Map([["slow", Array<Answer>(5).fill("silence")]]));
  const child = spawn(python(), [LIFECYCLE, nats!.url], {
    env: { ...process.env, ...environment },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async (): Promise<unknown> => (await lines.next()).value;
  expect(await line()).toBe("closed");
  expect(ingress.take().filter(({ subject }) => subject === "cancel.shop").length).toBe(4);
  expect(await line()).toBe("connected");
  await nats!.kill();
  child.stdin.write("the server has ended\n");
  expect(await line()).toBe("not connected");
  await nats!.start();
  await startIngress();
  child.stdin.end("it runs again\n");
  expect(await line()).toBe("answered");
  expect((await once(child, "exit"))[0]).toBe(0);
});

test("the Python client sends no call that can't be made as it is, and says so by one class of errors", async () => {
  const ingress = await startIngress();
  const outcomes = Object.entries((await runPython(python(), [MISTAKES, nats!.url], environment)) as object);
  expect(outcomes.length).toBeGreaterThan(10);
  expect(outcomes.filter(([, outcome]) => outcome !== "TUTTI_INVALID_INPUT")).toEqual([]);
  // None for every option is as if none was given.
  const [plain, ...others] = ingress.take().map(comparable);
  expect(others).toEqual([plain]);
});

test("the Python package is typed, linted and small, and can be built", { timeout: 240_000 }, async () => {
  const cache = join(ROOT, ".tutti/cache");
  const run = (...args: string[]) =>
    execute(python(), ["-m", ...args], { cwd: PACKAGE, env: { ...process.env, ...environment } });
  const examples = await writeExamples();
  expect(examples.length).toBeGreaterThan(3);
  const ours = ["src", SCRIPT, LIFECYCLE, MISTAKES];
  const mypy = run(
    "mypy",
    "--strict",
    "--cache-dir",
    join(cache, "mypy"),
    "--scripts-are-modules",
    ...ours,
    ...examples,
  );
  await expect(mypy).resolves.toBeDefined();
  const ruff = ["--config", join(PACKAGE, "pyproject.toml"), "--cache-dir", join(cache, "ruff")];
  await expect(run("ruff", "check", ...ruff, ...ours)).resolves.toBeDefined();
  await expect(run("ruff", "format", "--check", ...ruff, ...ours)).resolves.toBeDefined();
  await run("hatchling", "build", "-t", "wheel", "-d", join(folder, "wheel"));
  const [wheel = ""] = await readdir(join(folder, "wheel"));
  expect(wheel).toMatch(/^tutti_client-.*-py3-none-any\.whl$/);
  const { stdout } = await run("zipfile", "-l", join(folder, "wheel", wheel));
  for (const file of ["__init__.py", "py.typed"]) expect(stdout).toContain(`tutti_client/${file}`);
  const counted = await execute(python(), ["-c", COUNT, join(PACKAGE, "src/tutti_client")]);
  expect(Number(counted.stdout)).toBeLessThanOrEqual(LINES_MAX);
});

/** The examples that use the client, as scripts that ask the scripted ingress. */
async function writeExamples(): Promise<readonly string[]> {
  const blocks = ["clients/python/README.md", "docs/guides/publisher.md", "docs/messages.md"]
    .flatMap(blocksOf)
    .filter(({ language, text }) => language === "python" && text.includes("tutti_client"));
  return Promise.all(
    blocks.map(async ({ text }, i) => {
      const path = join(folder, `example_${i}.py`);
      await writeFile(path, `${text.replaceAll("nats://127.0.0.1:4222", nats!.url)}\n`);
      return path;
    }),
  );
}

test("the examples of the Python client run", { timeout: 120_000 }, async () => {
  const ingress = await startIngress();
  for (const example of await writeExamples()) {
    const running = execute(python(), [example], { env: { ...process.env, ...environment } });
    await expect(running, example).resolves.toMatchObject({ stderr: "" });
    expect(ingress.take().length, example).toBeGreaterThan(0);
  }
});
