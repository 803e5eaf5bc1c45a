import { type RoleStarters, runProcess } from "@tutti/host/role";
import { ROLES, isRole } from "@tutti/protocol";

const starters: RoleStarters = {
  ingress: async () => (await import("./roles/ingress.ts")).start,
  batcher: async () => (await import("./roles/batcher.ts")).start,
  ranker: async () => (await import("./roles/ranker.ts")).start,
  executor: async () => (await import("./roles/executor.ts")).start,
  profiler: async () => (await import("./roles/profiler.ts")).start,
  planner: async () => (await import("./roles/planner.ts")).start,
  gateway: async () => (await import("./roles/gateway.ts")).start,
  jobs: async () => (await import("./roles/jobs.ts")).start,
};

const [list = "", ...flags] = process.argv.slice(2);
const roles = list.split(",");
if (roles.every(isRole) && new Set(roles).size === roles.length) await runProcess(roles, flags, starters);
else {
  process.stderr.write(`name what this process hosts, such as ingress,batcher; roles are ${ROLES.join(", ")}\n`);
  process.exit(2);
}
