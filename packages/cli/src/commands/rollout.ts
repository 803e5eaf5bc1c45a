export { rollout } from "@tutti/admin/rollouts";
