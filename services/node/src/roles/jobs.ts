import { type StartRole } from "@tutti/host/role";
import { createJobRunner } from "@tutti/jobs";

export const start: StartRole = ({ ports, config, options, nats }, ready) =>
  createJobRunner({ ...ports, jobs: nats.jobs }, { ...config, replyScope: options.replyScope }, ready);
