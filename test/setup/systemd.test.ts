/** The units of infra/deploy/systemd: systemd understands them, and so do the programs that they start. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "infra/deploy/systemd");
const units = readdirSync(FOLDER).filter((name) => name.endsWith(".service"));
const text = (name: string): string => readFileSync(join(FOLDER, name), "utf8");
const valuesIn = (unit: string, key: string): string[] =>
  [...text(unit).matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, value]) => value!);
const ours = units.filter((unit) => valuesIn(unit, "ExecStart").some((line) => line.startsWith("/opt/tutti/")));

/** Units whose programs are here, so that systemd finds them. */
let here = "";
beforeAll(() => {
  here = mkdtempSync(join(tmpdir(), "tutti-systemd-"));
  for (const unit of units) {
    const local = text(unit)
      .replaceAll("/opt/tutti/", `${ROOT}/`)
      .replaceAll("/usr/local/bin/nats-server", "/bin/true");
    writeFileSync(join(here, unit), local);
  }
});
afterAll(() => rmSync(here, { recursive: true }));

const analyze = (...args: string[]) => spawnSync("systemd-analyze", args, { encoding: "utf8", cwd: here });

test("systemd knows every key of the units, and can start their programs", (ctx) => {
  const paths = units.map((unit) => join(here, unit.replace("@.", "@0.")));
  for (const unit of units.filter((name) => name.includes("@.")))
    writeFileSync(join(here, unit.replace("@.", "@0.")), readFileSync(join(here, unit)));
  const { error, status, stdout, stderr } = analyze("verify", "--man=no", ...paths);
  if (error !== undefined) return ctx.skip("no systemd-analyze is here");
  const about = `${stdout}${stderr}`.split("\n").filter((line) => line.includes(here) || line.includes("tutti-"));
  expect([status, about]).toEqual([0, []]);
});

test("systemd rates the exposure of each unit as low", (ctx) => {
  for (const unit of units) {
    const { error, stdout } = analyze("security", "--offline=yes", join(here, unit));
    if (error !== undefined) return ctx.skip("no systemd-analyze is here");
    expect([unit, Number(/level for .*: ([\d.]+)/.exec(stdout)?.[1])]).toSatisfy(
      ([, level]: [string, number]) => level > 0 && level < 3,
    );
  }
});

test("every command line of ours is one that `tutti` takes, with the shipped file", () => {
  expect(ours).toEqual(["tutti-executor@.service", "tutti-node.service"]);
  for (const unit of ours) {
    const [line = ""] = valuesIn(unit, "ExecStart");
    const [program, ...words] = line.replaceAll("%i", "1").split(" ");
    expect(program).toBe("/opt/tutti/bin/tutti");
    const local = words.map((word) => word.replace("/etc/tutti/", `${FOLDER}/`));
    const printed = execFileSync(
      process.execPath,
      ["packages/cli/src/main.ts", "config", "print", ...local, "--json"],
      {
        ...{ cwd: ROOT, encoding: "utf8" as const, env: environmentOf(unit) },
      },
    );
    const { options } = JSON.parse(printed) as { options: { name: string; value: string; source: string }[] };
    const sources = Object.fromEntries(options.map(({ name, value, source }) => [name, [value, source]]));
    expect(sources["nats"]).toEqual(["nats://127.0.0.1:4222", `${FOLDER}/tutti.yaml:4`]);
    if (unit.includes("executor"))
      expect([sources["gpus"], sources["device"], sources["state"]]).toEqual([
        ...[
          ["1", "flag"],
          ["1", "flag"],
        ],
        ["/var/lib/tutti", "env TUTTI_STATE"],
      ]);
  }
});

const environmentOf = (unit: string): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"],
  ...Object.fromEntries(
    valuesIn(unit, "Environment").flatMap((line) => line.split(" ").map((pair) => pair.split("="))),
  ),
});

test("a unit of ours with a misspelt key is not started again", () => {
  for (const unit of ours) {
    const [line = ""] = valuesIn(unit, "ExecStart");
    const file = join(here, "misspelt.yaml");
    writeFileSync(file, "polcy: eager\n");
    const [, ...words] = line.replaceAll("%i", "1").replace("/etc/tutti/tutti.yaml", file).split(" ");
    const { status, stderr } = spawnSync(process.execPath, ["packages/cli/src/main.ts", ...words], {
      ...{ cwd: ROOT, encoding: "utf8" as const, env: environmentOf(unit) },
    });
    expect(stderr).toContain('did you mean "policy"');
    expect(valuesIn(unit, "RestartPreventExitStatus")).toEqual([String(status)]);
  }
});

test("units of ours are users without rights, stop by one SIGTERM, and have longer than a drain takes", () => {
  for (const unit of ours) {
    const only = (key: string): string | undefined => valuesIn(unit, key)[0];
    expect([only("KillMode"), only("User"), only("NoNewPrivileges"), only("ProtectSystem")]).toEqual([
      ...["mixed", "tutti", "yes", "strict"],
    ]);
    expect(Number(only("TimeoutStopSec"))).toBeGreaterThan(runStopSeconds());
    // A folder that units share must not go with the first that stops.
    expect(only("RuntimeDirectoryPreserve")).toBe("yes");
  }
  expect(valuesIn("tutti-node.service", "After")[0]).toContain("tutti-nats.service");
  expect(valuesIn("tutti-executor@.service", "Before")).toEqual(["tutti-node.service"]);
});

/** After that time `tutti run` kills its role. */
function runStopSeconds(): number {
  const source = readFileSync(join(ROOT, "packages/cli/src/commands/run.ts"), "utf8");
  const ms = Number(/STOP_MS = ([\d_]+)/.exec(source)?.[1]?.replaceAll("_", ""));
  expect(ms).toBeGreaterThan(0);
  return ms / 1_000;
}
