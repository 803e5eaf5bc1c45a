/**
 * The documentation agrees with the code's declarations, and every citation and link has a target. A failure prints the
 * line that the docs should have.
 */
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";
import * as protocol from "@tutti/protocol";
import type { MessageType } from "@tutti/protocol";
import { decodeAnswer, decodeRequest, decodeTensors, encodeTensors } from "@tutti/wire";

const root = join(import.meta.dirname, "..", "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

const docs = filesBelow("docs", ".md");
const readmes = [
  "README.md",
  ...["clients", "packages", "services"].flatMap((folder) => filesBelow(folder, "README.md")),
].filter((path) => existsSync(join(root, path)));
const sources = ["packages", "services", "test"].flatMap((folder) => filesBelow(folder, ".ts"));

test("the table of internal messages has every declared message, and no other", () => {
  const declared = messages();
  const expected = declared
    .toSorted((a, b) => a.tag - b.tag)
    .map(({ tag, name, from, to, repair }) => `| ${tag} | \`${name}\` | ${from} | ${to} | ${repair} |`);
  expect(expected.length).toBeGreaterThan(0);
  expect(rowsUnder("docs/architecture.md", "| tag | message |")).toEqual(expected);
});

test("every message has a tag and a name of its own, and only fixed records have tags below 64", () => {
  const declared = messages();
  expect(new Set(declared.map(({ tag }) => tag)).size).toBe(declared.length);
  expect(new Set(declared.map(({ name }) => name)).size).toBe(declared.length);
  expect(declared.filter(({ tag, fields }) => tag < 64 !== (fields !== undefined))).toEqual([]);
});

test("the table of errors has every code with its status and whether it may be retried", () => {
  const expected = Object.entries(protocol.ERROR_STATUS).map(([code, status]) => {
    const retryable = protocol.isRetryable(code as protocol.ErrorCode) ? "yes" : "no";
    return `| \`${code}\` | ${status} | ${retryable} |`;
  });
  const rows = rowsUnder("docs/messages.md", "| code | status |");
  expect(rows.map((row) => `${row.split("|").slice(0, 4).join("|")}|`)).toEqual(expected);
});

test("every test file that a document names exists", () => {
  const missing = [...docs, ...readmes].flatMap((path) =>
    [...read(path).matchAll(/(?<![\w/.-])(?:test|packages|services)\/[\w./-]+\.test\.ts/g)]
      .map(([file]) => file)
      .filter((file) => !existsSync(join(root, file)))
      .map((file) => `${path}: ${file}`),
  );
  expect(missing).toEqual([]);
});

test("the tables of headers and of limits have everything that is declared, with its value", () => {
  const headers = rowsUnder("docs/messages.md", "| header |").map(firstCell);
  expect(headers.toSorted()).toEqual(Object.values(protocol.HEADER).toSorted());

  const limits = Object.entries<unknown>(protocol)
    .filter((entry): entry is [string, number] => /_MAX$/.test(entry[0]) && typeof entry[1] === "number")
    .map(([name, value]) => `${name} = ${value}`);
  const rows = rowsUnder("docs/messages.md", "| limit |").map((row) => {
    const [name, value] = row.split("|").slice(1).map(bare);
    return `${name} = ${value?.replaceAll(",", "")}`;
  });
  expect(rows.toSorted()).toEqual(limits.toSorted());
});

test("no example of the TypeScript client reads what its answers don't carry, by a header that is reserved", () => {
  const reserved = rowsUnder("docs/messages.md", "| header |").filter((row) => row.includes("| answer | reserved"));
  const properties = Object.entries(protocol.HEADER)
    .filter(([, header]) => reserved.map(firstCell).includes(header))
    .map(([name]) => name)
    .filter((name) => name !== "model"); // the client knows which model it asked
  expect(properties.toSorted()).toEqual(["batchSize", "queueUs"]);
  const examples = [...docs, ...readmes].flatMap((path) => blocksOf(path, "ts"));
  const ofClient = examples.filter((text) => text.includes('from "@tutti/client"'));
  expect(ofClient.length).toBeGreaterThan(2);
  for (const text of ofClient) expect(text).not.toMatch(new RegExp(`\\b(${properties.join("|")})\\b`));
});

test("the documented requests mean the same in JSON and in binary, and the documented answer can be read", () => {
  const [request = "", answer = ""] = blocksOf("docs/messages.md", "json");
  const [dump = ""] = blocksOf("docs/messages.md", "hex");
  const message = Uint8Array.from(dump.split(/\s+/).filter(Boolean), (byte) => Number.parseInt(byte, 16));
  const { inputs, id, outputs } = decodeRequest("json", new TextEncoder().encode(request));
  expect(inputs).toEqual(decodeTensors(message));
  expect(encodeTensors(inputs)).toEqual(message);
  expect({ id, outputs }).toEqual({ id: "a-17", outputs: ["y"] });
  expect(read("docs/messages.md")).toContain(`example, ${message.byteLength} bytes`);
  const { model, version, outputs: answered } = decodeAnswer("json", new TextEncoder().encode(answer));
  expect([model, version, answered.map(({ name }) => name)]).toEqual(["mlp", "1", ["y"]]);
});

test("the table of element types has every type with its number and width", () => {
  const expected = Object.entries(protocol.DATA_TYPES).map(
    ([type, bytes]) => `| \`${type}\` | ${protocol.dataTypeNumber(type as protocol.DataType)} | ${bytes} |`,
  );
  expect(rowsUnder("docs/messages.md", "| `datatype` |")).toEqual(expected);
});

test("every subject, bucket and content type that is declared is documented", () => {
  const architecture = read("docs/architecture.md");
  for (const bucket of [...Object.values(protocol.BUCKET), protocol.FILES_BUCKET])
    expect(architecture, bucket).toContain(`\`${bucket}\``);
  for (const reason of Object.values(protocol.CONTENT)) expect(read("docs/messages.md")).toContain(`\`${reason}\``);

  const subjects = protocol.subjectsOf("CLUSTER");
  const kinds = Object.values(subjects).map((make) => (typeof make === "function" ? make("0" as never) : make));
  // The token after the cluster names the kind: to, all, beat, …
  for (const kind of kinds.flatMap((subject) => subject.split(".")[3] ?? []))
    expect(architecture, kind).toMatch(new RegExp(`\`(tutti\\.v1\\.<cluster>|…)\\.${kind}[.\`]`));
});

test("every section that code, tests or docs cite exists", () => {
  const known = {
    algorithms: new Set(headingsOf("docs/algorithms.md").map((heading) => /^([A-E]\d*|\d)\b/.exec(heading)?.[1])),
    architecture: new Set(headingsOf("docs/architecture.md").map((heading) => /^(T?\d)\b/.exec(heading)?.[1])),
  };
  const missing: string[] = [];
  let cited = 0;
  for (const path of [...sources, ...docs, ...readmes]) {
    for (const { file, section } of citationsIn(read(path))) {
      cited++;
      if (!known[file].has(section)) missing.push(`${path} cites docs/${file}.md, ${section}`);
    }
  }
  expect(missing).toEqual([]);
  expect(cited).toBeGreaterThan(20);
});

test("every relative link in docs and READMEs leads to a file, and to a heading of it where one is named", () => {
  const broken: string[] = [];
  for (const path of [...docs, ...readmes]) {
    for (const [, target = ""] of withoutCode(read(path)).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [file = "", anchor] = target.split("#");
      const linked = file === "" ? path : relative(root, join(root, dirname(path), file));
      const exists = existsSync(join(root, linked));
      const leads = exists && (anchor === undefined || headingsOf(linked).map(slug).includes(anchor));
      if (!leads) broken.push(`${path} → ${target}`);
    }
  }
  expect(broken).toEqual([]);
});

test("docs and READMEs name no path of any one machine", () => {
  const machinePath = /(?<![\w.~/-])\/(work|home|root|Users|tmp|mnt)\/[\w.-]+/g;
  const named = [...docs, ...readmes].flatMap((path) =>
    [...read(path).matchAll(machinePath)].map(([found]) => `${path}: ${found}`),
  );
  expect(named).toEqual([]);
});

const messages = (): MessageType<unknown>[] => Object.values<unknown>(protocol).filter(isMessage);

function isMessage(value: unknown): value is MessageType<unknown> {
  return typeof value === "object" && value !== null && "tag" in value && "repair" in value;
}

function filesBelow(folder: string, ending: string): string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.name === "node_modules" || entry.name.startsWith(".")) return [];
    if (entry.isDirectory()) return filesBelow(path, ending);
    return entry.isFile() && path.endsWith(ending) ? [path] : [];
  });
}

/** The rows of the table whose header line starts with `header`. */
function rowsUnder(path: string, header: string): string[] {
  const lines = read(path).split("\n");
  const start = lines.findIndex((line) => line.startsWith(header));
  if (start < 0) throw new Error(`${path} has no table "${header}"`);
  const rows = lines.slice(start + 2);
  const end = rows.findIndex((line) => !line.startsWith("|"));
  return end < 0 ? rows : rows.slice(0, end);
}

const bare = (cell: string): string => cell.trim().replaceAll("`", "");
const firstCell = (row: string): string => bare(row.split("|")[1] ?? "");

/** The contents of the fenced blocks of one language, in order. */
const blocksOf = (path: string, language: string): string[] =>
  [...read(path).matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map(([, text = ""]) => text);

function headingsOf(path: string): string[] {
  if (!statSync(join(root, path)).isFile() || !path.endsWith(".md")) return [];
  return [...withoutCode(read(path)).matchAll(/^#{1,6} (.+)$/gm)].map(([, text = ""]) => text);
}

/** The anchor that GitHub makes of a heading. */
const slug = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");

const withoutCode = (markdown: string): string => markdown.replace(/^```[\s\S]*?^```$/gm, "");

interface Citation {
  readonly file: "algorithms" | "architecture";
  readonly section: string;
}

/** `docs/algorithms.md, A4`, `… A4 and A5`, `… section 0`, `docs/architecture.md, T5`, `… sections 2 to 4`. */
function citationsIn(text: string): Citation[] {
  // A citation may be broken over two lines of a comment.
  const joined = text.replace(/\n\s*(\*|\/\/)?\s*/g, " ");
  const citation =
    /docs\/(algorithms|architecture)\.md`?,? (?:sections? )?([A-ET]?\d+|[A-E])\b((?:(?:, | and | to |–)[A-ET]?\d+\b)*)/g;
  return [...joined.matchAll(citation)].flatMap(([, file, first = "", rest = ""]) =>
    // "A10, 8" is case 8 of A10; "4 and 5" are two sections.
    [first, ...(rest.match(/^\d/.test(first) ? /\d+/g : /[A-ET]\d+/g) ?? [])].map((section) => ({
      file: file as Citation["file"],
      section,
    })),
  );
}
