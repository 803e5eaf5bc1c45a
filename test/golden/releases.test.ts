/**
 * Bytes and forms of earlier releases, which this one must read and keep (docs/upgrades.md): see releases/README.md.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TUTTI_RELEASE } from "@tutti/protocol";
import { expect, test } from "vitest";
import { CODECS, plain } from "./release-bytes.ts";
import { type ReleaseForms, changes, formsOfToday } from "./release-forms.ts";

const FOLDER = join(import.meta.dirname, "releases");
/** A value of its own: whoever writes decision logs anew does not mean a release's forms. */
const isWriting = process.env["TUTTI_GOLDEN"] === "release";

interface Frozen {
  readonly codec: string;
  readonly value: unknown;
  readonly base64: string;
}

/** @throws {Error} the release is out: what it reads and writes can't be changed any more */
function assertUnreleased(release: string, tags: readonly string[]): void {
  if (tags.includes(`v${release}`))
    throw new Error(`v${release} is out, so its folder stays as it is: give the next release a number`);
}

function freeze(): void {
  assertUnreleased(TUTTI_RELEASE, tags());
  const folder = join(FOLDER, TUTTI_RELEASE);
  const bytes: Frozen[] = Object.entries(CODECS).flatMap(([codec, { samples, encode }]) =>
    samples.map((value) => ({ codec, value: plain(value), base64: toBase64(encode(value as never)) })),
  );
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "forms.json"), `${JSON.stringify(formsOfToday(), null, 1)}\n`);
  writeFileSync(join(folder, "bytes.json"), `${JSON.stringify(bytes, null, 1)}\n`);
}
function tags(): readonly string[] {
  try {
    const args = ["-C", FOLDER, "tag", "--list", "v*"];
    return execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).split("\n");
  } catch {
    return []; // an export without git knows no tags
  }
}

const toBase64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
if (isWriting) freeze();

const releases = readdirSync(FOLDER).filter((name) => name !== "README.md");
const read = (release: string, file: string): unknown =>
  JSON.parse(readFileSync(join(FOLDER, release, file), "utf8")) as unknown;

test("the present release has its folder", () => {
  expect(releases, "TUTTI_GOLDEN=release npm test golden").toContain(TUTTI_RELEASE);
});

test("the folder of a release that is out is never written anew", () => {
  expect(() => assertUnreleased("0.1.0", ["v0.0.9", "v0.1.0", ""])).toThrow("v0.1.0 is out");
  expect(() => assertUnreleased("0.1.0", ["v0.1.0-rc.1", ""])).not.toThrow();
});

test.each(releases)(
  "what release %s has sent and stored is read today as it was meant, and written alike",
  (release) => {
    const [frozen, today] = [read(release, "forms.json") as ReleaseForms, formsOfToday()];
    /** A form that has grown, or has a new number, is written otherwise. */
    const isSame = (codec: string): boolean => {
      const [of = "", ...name] = codec.split(" ");
      const formIn = (forms: ReleaseForms): unknown =>
        of === "message" ? forms.messages[name.join(" ")] : of === "stored" ? forms.stored[name.join(" ")] : undefined;
      return JSON.stringify(formIn(frozen)) === JSON.stringify(formIn(today));
    };
    for (const { codec: name, value, base64 } of read(release, "bytes.json") as Frozen[]) {
      const codec = CODECS[name];
      if (codec === undefined) expect.fail(`nothing reads a ${name} any more`);
      const bytes = new Uint8Array(Buffer.from(base64, "base64"));
      const decoded = codec.decode(bytes);
      expect(plain(decoded), name).toMatchObject(value as object);
      if (isSame(name)) expect(toBase64(codec.encode(decoded as never)), name).toBe(base64);
    }
  },
);

test.each(releases)(
  "no form has changed since release %s but by growing, or by a number of its own (STORED-2)",
  (release) => {
    const [frozen, today] = [read(release, "forms.json") as ReleaseForms, formsOfToday()];
    for (const [name, { tag, form }] of Object.entries(frozen.messages)) {
      expect(today.messages[name]?.tag, `tag of ${name}`).toBe(tag);
      expect(changes(form, today.messages[name]?.form, name), `${name} needs a new tag`).toEqual([]);
    }
    for (const [kind, { number, form }] of Object.entries(frozen.stored)) {
      expect(today.stored[kind]?.number, kind).toBeGreaterThanOrEqual(number);
      if (today.stored[kind]?.number === number)
        expect(changes(form, today.stored[kind].form, kind), `${kind} needs the form ${number + 1}`).toEqual([]);
    }
    for (const [table, names] of Object.entries(frozen.numbers))
      expect(today.numbers[table]?.slice(0, names.length), `${table}: append only`).toEqual(names);
  },
);

test("a form may grow by optional members and by a list at the end of a record, and in no other way", () => {
  const form = { record: { a: "count", kind: { oneOf: ["x", "y"] }, b: { optional: { list: "flag", most: 3 } } } };
  const changed = (record: object): string[] => changes(form, { record: { ...form.record, ...record } }, "m");
  expect(changed({ c: { optional: "flag" } })).toEqual([]);
  expect(changed({ c: "flag" })).toEqual(["m.c is new, and not optional"]);
  expect(changed({ a: "micros" })).toEqual(['m.a: "count" became "micros"']);
  expect(changed({ b: { optional: { list: "flag", most: 4 } } })).toEqual(["m.b.optional.most: 3 became 4"]);
  expect(changed({ b: { list: "flag", most: 3 } })).toHaveLength(1);
  expect(changed({ kind: { oneOf: ["x", "y", "z"] } })).toEqual(['m.kind grew by ["z"]']);
  expect(changes(form, { record: { a: "count", kind: { oneOf: ["x", "y"] } } }, "m")).toEqual(["m.b is gone"]);
  expect(changes({ unchecked: form.record.kind }, { unchecked: { oneOf: ["x", "y", "z"] } }, "m")).toEqual([]);
  const fixed = [["thread", "thread"]];
  const added = ["more", { list: [["seq", "request"]], isAdded: true }];
  expect(changes(fixed, [...fixed, added], "r")).toEqual([]);
  expect(changes(fixed, [...fixed, ["flag", "flag"]], "r")).toEqual(["r.flag is new, and no list"]);
  expect(changes(fixed, [["thread", "word"]], "r")).toHaveLength(1);
});
