import type { Finished, Host } from "../../infra/setup/host.mjs";

interface Machine extends Partial<Host> {
  /** Executables that exist, with their answers to arguments. */
  readonly programs?: Record<string, (args: string[]) => Partial<Finished> | string>;
}

/** An imaginary machine: its programs answer as the test defines, and every call is recorded. */
export function machine(given: Machine): Host & { readonly calls: string[] } {
  const programs = given.programs ?? {};
  const calls: string[] = [];
  return {
    env: { PATH: "/usr/bin" },
    platform: "linux",
    arch: "x64",
    nodeVersion: "20.20.2",
    nodePath: "/usr/bin/node",
    uid: 1000,
    download: (url) => Promise.reject(new Error(`${url} is out of reach`)),
    say: () => {},
    isExecutable: (path) => path in programs,
    run: (command, args) => {
      calls.push([command, ...args].join(" "));
      const answer = programs[command]?.(args) ?? { code: 127, stderr: `${command}: not found` };
      const finished = typeof answer === "string" ? { stdout: answer } : answer;
      return Promise.resolve({ code: 0, stdout: "", stderr: "", ...finished });
    },
    ...given,
    calls,
  };
}
