import { type StartRole } from "@tutti/host/role";
import { createJobRunner } from "@tutti/jobs";

export const start: StartRole = ({ ports, config, nats }, ready) =>
  createJobRunner({ ...ports, jobs: nats.jobs }, config, ready);
