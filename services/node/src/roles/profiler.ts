import { createProfiler } from "@tutti/actors";
import { PROFILING, type StartRole } from "@tutti/host/role";

export const start: StartRole = ({ ports, config }, ready) => createProfiler(ports, { ...config, ...PROFILING }, ready);
