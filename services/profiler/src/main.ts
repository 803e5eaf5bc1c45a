import { createProfiler } from "@tutti/actors";
import { PROFILING, runRole } from "@tutti/cli/role";

await runRole("profiler", ({ ports, config }, ready) => createProfiler(ports, { ...config, ...PROFILING }, ready));
