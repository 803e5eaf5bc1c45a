import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const SCRIPT = join(import.meta.dirname, "../../infra/docker/with-daemon.sh");
/** Programs of the system that the script uses. */
const TOOLS = ["cat", "chmod", "date", "env", "id", "mktemp", "rm", "setsid", "sh", "sleep", "tail", "timeout"];

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tutti-daemon-"));
  for (const tool of TOOLS)
    symlinkSync(spawnSync("sh", ["-c", `command -v ${tool}`], { encoding: "utf8" }).stdout.trim(), join(folder, tool));
  program("id", 'case "$1" in -u) echo 0 ;; *) echo root ;; esac');
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Puts a program on the path of the imagined machine. */
function program(name: string, text: string): void {
  const path = join(folder, name);
  rmSync(path, { force: true });
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
}

/** Runs a command that says where the daemon is and ends with 7. Only what is left in the folder of the run remains. */
function run() {
  const env = { PATH: folder, TMPDIR: folder };
  const command = ["sh", "-c", 'echo "host ${DOCKER_HOST-none}"; exit 7'];
  const { status, stdout, stderr } = spawnSync(SCRIPT, command, { env, encoding: "utf8" });
  const left = readdirSync(folder).filter((name) => name.startsWith("tutti-docker-"));
  return { status, said: stderr.trim(), host: stdout.trim(), left };
}

test("a daemon that answers is used, and none is started", () => {
  program("docker", "exit 0");
  program("dockerd", "touch started");
  expect(run()).toEqual({ status: 7, said: "", host: "host none", left: [] });
});

test.each([
  [
    "another user than root",
    "only root can start one, and this is nina",
    () => program("id", 'case "$1" in -u) echo 1000 ;; *) echo nina ;; esac'),
  ],
  ["a machine without apt-get", "it comes as a Debian package, and apt-get isn't here", () => undefined],
  [
    "an archive out of reach",
    "docker: installing docker.io\ndocker: no daemon for this run: apt-get can't install docker.io",
    () => program("apt-get", "exit 100"),
  ],
  [
    "a daemon that ends",
    "dockerd doesn't run: no overlay here",
    () => program("dockerd", 'echo "no overlay here"; exit 1'),
  ],
])("%s: the command runs without a daemon, and the reason is said", (_, reason, given) => {
  given();
  const { said, ...rest } = run();
  expect(said).toContain(reason);
  expect(rest).toEqual({ status: 7, host: "host none", left: [] });
});

test("a daemon that was started ends with the command, and leaves nothing", () => {
  program("docker", 'test -e "${DOCKER_HOST#unix://}"');
  program("dockerd", 'trap "exit 0" TERM; echo up >"${2#unix://}"; while :; do sleep 0.05; done');
  const { said, host, ...rest } = run();
  expect(said).toMatch(/a daemon answers after \d+ s/);
  expect(host).toMatch(/^host unix:\/\/.*tutti-docker-\w+\/docker\.sock$/);
  expect(rest).toEqual({ status: 7, left: [] });
});
