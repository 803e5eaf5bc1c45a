import { createBystander, runRole } from "@tutti/cli/role";

await runRole("planner", ({ ports, config }, ready) => createBystander("planner", ports, config, ready));
